# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One operator for distributed training on Kubernetes; importing this starts nothing."""

__version__ = "0.1.0"

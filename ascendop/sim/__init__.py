# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A small Kubernetes in memory, for tests and laptops."""

# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The wire: paths, verbs, errors; the only room that speaks to an API server."""

# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Workloads that others run, and of which only the rank table is ours."""

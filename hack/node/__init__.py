# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Real nodes on one machine: kubelet, containerd and pods in namespaces of their own."""

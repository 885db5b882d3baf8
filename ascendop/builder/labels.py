# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every label and annotation key that we read or write, and what it means."""

from __future__ import annotations

from typing import Final

# Labels of pods and Services; the contract of the training operators.
JOB_NAME: Final = "training.kubeflow.org/job-name"
OPERATOR_NAME: Final = "training.kubeflow.org/operator-name"
REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"
REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"
JOB_ROLE: Final = "training.kubeflow.org/job-role"
GROUP_NAME: Final = "group-name"
SHORT_JOB_NAME: Final = "job-name"
"""Undotted twin that clusterd and users' anti-affinity rules read; likewise the next two."""
SHORT_REPLICA_TYPE: Final = "replica-type"
SHORT_REPLICA_INDEX: Final = "replica-index"
ATTEMPT: Final = "version"
"""Which generation of pods of an AscendJob a pod belongs to."""
IDENTITY: Final = (JOB_NAME, OPERATOR_NAME, REPLICA_TYPE, REPLICA_INDEX)
"""What a child is found by, and which place in its job it has: without them it is out of sight."""

# Gang scheduling.
POD_GROUP: Final = "scheduling.k8s.io/group-name"
"""Annotation: the only link from a pod to its Volcano PodGroup."""
TASK_SPEC: Final = "volcano.sh/task-spec"

# Labels of an AscendJob.
FRAMEWORK: Final = "framework"
FAULT_RETRY_TIMES: Final = "fault-retry-times"
POD_RESCHEDULING: Final = "pod-rescheduling"
PROCESS_RECOVER: Final = "process-recover-enable"
SUB_HEALTHY_STRATEGY: Final = "subHealthyStrategy"
SUPER_POD_AFFINITY: Final = "super-pod-affinity"
SCALEOUT_TYPE: Final = "scaleout-type"
INFERENCE_JOB: Final = "jobID"
INFERENCE_APP: Final = "app"
SCALING_RULE: Final = "mind-cluster/scaling-rule"
SCALING_GROUP: Final = "mind-cluster/group-name"
SOFT_SHARE: Final = (
    "huawei.com/scheduler.softShareDev.aicoreQuota",
    "huawei.com/scheduler.softShareDev.hbmQuota",
    "huawei.com/scheduler.softShareDev.policy",
)

# Labels of workloads that only want a rank table, and of their pods.
RING_CONTROLLER: Final = "ring-controller.atlas"
"""Of a ConfigMap, too: it was made for a rank table. Its value, a chip type, is for others."""
DEPLOY_NAME: Final = "deploy-name"
"""On pods of a Deployment or StatefulSet, by its user: the name of the workload."""
VOLCANO_JOB_NAME: Final = "volcano.sh/job-name"

# Annotations of an AscendJob.
RECOVER_STRATEGY: Final = "recover-strategy"
SP_BLOCK: Final = "sp-block"
SCHEDULE_POLICY: Final = "huawei.com/schedule_policy"
AFFINITY_CONFIG: Final = "huawei.com/affinity-config"

# Annotations of pods.
RANK_INDEX: Final = "hccl/rankIndex"
DEVICES_910: Final = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
DEVICES_NPU: Final = "ascend.kubectl.kubernetes.io/ascend-npu-configuration"
SUPER_POD_RANK: Final = "super-pod-rank"
SUPER_POD_ID: Final = "super-pod-id"
HARDWARE_TYPE: Final = "mind-cluster/hardware-type"
POD_TYPE: Final = "podType"
BACKUP: Final = "backup"
"""Value of POD_TYPE on a hot-switch backup: it takes no slot and is not counted."""
OPERATOR_ACTION: Final = "needOperatorOpe"
"""What clusterd asks of us: to make a backup of this pod, or to delete it at once."""
ASKED_FOR_BACKUP: Final = "create"
ASKED_TO_DELETE: Final = "delete"
VOLCANO_ACTION: Final = "needVolcanoOpe"
"""What clusterd asks of the scheduler; none of our business."""
HOT_SWITCH: Final = "inHotSwitchFlow"
BACKUP_SOURCE: Final = "backupSourcePodName"
BACKUP_NAME: Final = "backupNewPodName"

POD_ANNOTATIONS_READ: Final = frozenset({
    RANK_INDEX, DEVICES_910, DEVICES_NPU, SUPER_POD_RANK, SUPER_POD_ID, HARDWARE_TYPE, POD_TYPE,
    OPERATOR_ACTION, VOLCANO_ACTION, HOT_SWITCH, BACKUP_SOURCE, BACKUP_NAME, POD_GROUP,
})  # fmt: skip
"""What a cached pod keeps of its annotations; everything else is left on the wire."""

# Ours.
PREFIX: Final = "ascendop.io/"
ATTEMPT_ANNOTATION: Final = PREFIX + "attempt"
"""On a job: the generation that its next pods belong to. Written before pods are replaced, so
that neither a crash nor an operator restart forgets a restart or counts one twice."""

REPLACES: Final = PREFIX + "replace-failed-workers"
"""On a job with a launcher, by its user: how many pods that failed may be replaced."""
REPLACED: Final = PREFIX + "replaced-workers"
HOSTS: Final = PREFIX + "hosts-changed"
"""Beside it, by us: how many were. Written before they are deleted."""

NPU_PREFIX: Final = "huawei.com/"
ASCEND_910: Final = "huawei.com/Ascend910"
NPU_A5: Final = "huawei.com/npu"
NPU_CORE: Final = "huawei.com/npu-core"
WHOLE_CARDS: Final = (ASCEND_910, "huawei.com/Ascend310P", "huawei.com/Ascend310", NPU_A5)

NEVER_COPIED: Final = (
    "kubectl.kubernetes.io/", "kueue.x-k8s.io/", "argocd.argoproj.io/", PREFIX,
)  # fmt: skip
"""Prefixes of annotations that mean the job itself, not its PodGroup."""

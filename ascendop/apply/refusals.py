# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a write's error means for the job: something to tell its owner, or mere trouble."""

from __future__ import annotations

from typing import Final

from ascendop.apply.address import AddressTakenError
from ascendop.apply.plan import Create, Failure, StepName, Write
from ascendop.apply.taken import Claim, NameTakenError
from ascendop.kube.errors import ForbiddenError, NotFoundError, RejectedError

CHILD_CONFLICT: Final = "ChildConflict"
ADDRESS_TAKEN: Final = "AddressTaken"
ADDRESS_S: Final = 30.0  # another Service has it; somebody may delete that one, or the pods
CONFLICT_S: Final = 5.0  # somebody may delete the object that is in the way
CLASH_S: Final = 1.0  # likewise, where nothing tells when; from then on less and less often
FORBIDDEN_S: Final = 30.0  # quota is given back by others, and rights by an administrator
MISSING_S: Final = 5.0
DENIED_S: Final = 30.0  # a webhook or a policy lets in tomorrow what it denies today
_KIND_GOES: Final = "custom resource definition is terminating"  # no cause has a name for it


def failure_of(step: StepName, write: Write, error: Exception) -> Failure | None:
    """The refusal that the job's owner should hear of; None for what nobody did wrong.

    None is: no answer, a conflict with another writer, a busy server, the quota's own race (a 409
    that is no AlreadyExists). All of them are decided anew, a little later.
    """
    match error:
        case NameTakenError():
            return _taken(step, write, error)
        case AddressTakenError():
            return Failure(step, write, str(error), reason=ADDRESS_TAKEN, retry_s=ADDRESS_S)
        case ForbiddenError():
            return _forbidden(step, write, error)
        case RejectedError():
            retry_s = None if _by_its_fields(error) else DENIED_S
            return Failure(step, write, error.message, retry_s=retry_s)
        case NotFoundError():  # the namespace, or the whole kind
            return Failure(step, write, error.message, retry_s=MISSING_S)
        case _:
            return None


def _by_its_fields(error: RejectedError) -> bool:
    """Whether the object is wrong by itself, so that only an edit helps.

    Admission answers with the codes of validation, but names no field: a webhook with whatever
    code it likes, 400 unless it says, and a ValidatingAdmissionPolicy with 422.
    """
    causes = error.details.get("causes") or ()
    return bool(causes) and all(cause.get("field") for cause in causes)


def _taken(step: StepName, write: Write, error: NameTakenError) -> Failure:
    if error.claim is Claim.FOREIGN:
        unseen = isinstance(write, Create) and not write.adopts
        retry_s = CLASH_S if unseen else CONFLICT_S
        return Failure(step, write, str(error), reason=CHILD_CONFLICT, retry_s=retry_s)
    leftover = error.claim is Claim.LEFTOVER
    return Failure(step, write, str(error), waits=True, leftover=leftover, retry_s=CONFLICT_S)


def _forbidden(step: StepName, write: Write, error: ForbiddenError) -> Failure:
    if error.caused_by("NamespaceTerminating"):
        # The job goes with its namespace; neither a retry nor an Event would do any good.
        return Failure(step, write, error.message, waits=True, retry_s=None)
    if _KIND_GOES in error.message:
        # What becomes of it the caches tell in a moment: the kind is gone, or it is back.
        return Failure(step, write, error.message, waits=True, retry_s=MISSING_S)
    return Failure(step, write, error.message, retry_s=FORBIDDEN_S)

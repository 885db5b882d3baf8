# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY ascendop ascendop
# An environment of its own is the whole of what the second stage needs.
RUN python -m venv /opt/ascendop \
    && /opt/ascendop/bin/pip install --no-cache-dir --constraint constraints.txt --upgrade pip \
    && /opt/ascendop/bin/pip install --no-cache-dir --constraint constraints.txt \
        --build-constraint constraints.txt '.[fast]'

FROM ${BASE}
COPY --from=build /opt/ascendop /opt/ascendop
ENV PATH=/opt/ascendop/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, because Kubernetes cannot tell from a name that it is not root; the one of the Deployment.
USER 9000:9000
ENTRYPOINT ["ascendop"]
CMD ["run"]

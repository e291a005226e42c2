"""The schema of a profile, and the first file of a new one."""

from __future__ import annotations

from typing import Any

import msgspec

from changegen.model.profile import SCHEMA, Profile
from changegen.profiles.load import list_profiles
from changegen.versions import minor_key, minor_of


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a profile file."""
    return msgspec.json.schema(Profile)


def starting_file(name: str, version: str) -> str:
    """Return a commented profile to start from, which is valid as it stands."""
    shipped = {row.name.removeprefix("kubernetes-") for row in list_profiles() if row.shipped}
    minors = sorted((m for m in shipped if minor_of(m) == m), key=minor_key)
    minor = minor_of(version) if version else minors[-1]
    extends = f"extends: kubernetes-{minor}" if minor in minors else f"# extends: kubernetes-{minors[-1]}"
    target = version.removeprefix("v") or minor
    return _STARTING_FILE.format(name=name, extends=extends, target=target, schema=SCHEMA)


_STARTING_FILE = """\
# A target profile of changegen. Lines with a leading '#' are examples: take what you need.
# Check it with 'changegen profile lint FILE'; every field is told by 'changegen profile schema'.
schema: {schema}
name: {name}
title: ""

# A shipped profile ('changegen profile list') or a file beside this one. Its lists are merged by name.
{extends}

target:
  kubernetes: "{target}"          # "1.37.2", or "1.37" for any patch
  # components:                   # only where one component goes elsewhere
  # - {{name: kubelet, version: ">=1.36.3"}}

feature_gates:
  # allowed, named (only gates listed below) or forbidden; GA gates are always free
  stages: {{alpha: named, beta: allowed}}
  # gates:
  # - name: DRADeviceTaintRules
  #   components: [kube-apiserver, kube-controller-manager, kube-scheduler]   # none: all that read it
  #   value: true                 # null: must not be set at all
  #   why: maintenance of single devices

# apis:                           # must be served after the change; 'expect: absent' for must not
# - group_version: resource.k8s.io/v1
#   kinds: [DeviceClass, ResourceClaim, ResourceSlice]

# drivers:                        # DRA drivers
# - name: gpu.example.com
#   version: ">=0.3.0"
#   workload: gpu-driver/kubelet-plugin        # namespace/name of its DaemonSet; none: inferred
#   nodes: example.com/accelerator=gpu         # nodes that must publish ResourceSlices

# extended_resources:
# - {{name: example.com/gpu, device_class: gpu.example.com, source: dra}}

# taints:
#   nodes:
#   - {{key: example.com/gpu-only, effect: NoSchedule, expect: present, nodes: example.com/accelerator=gpu}}
#   devices:
#   - {{key: example.com/maintenance, expect: absent}}

# accept:                         # findings that are known; they stay visible
# - {{code: CG-DRIFT-003, subject: kube-scheduler/cp-3, reason: replaced next week, owner: platform, until: "2027-01-31"}}

# checks:                         # of your own, printed in the checklist
# - {{layer: runtime, title: Training job sees two GPUs, command: kubectl exec …, expected: "2"}}

change:                           # fields for people; what is null stays open in the ticket
  type: normal                    # standard, normal or emergency
  service: null
  window: {{start: null, end: null}}
  owner: null
  approvers: []
  risk: null
  reason: null
  links: []
"""

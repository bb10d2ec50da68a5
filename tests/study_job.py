#!/usr/bin/env python3
"""Checks the structure of deploy/kubernetes/study.yaml: kinds, names and numbers that must agree.

A cluster checks more; this finds what a change of one place alone breaks. Needs python3-yaml.
Exit code: 0 sound, 1 not, 77 python3-yaml is missing.
"""
import os
import re
import sys

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is missing")
    sys.exit(77)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
with open(os.path.join(ROOT, "deploy/kubernetes/study.yaml"), encoding="utf-8") as file:
    claim, study, merge = yaml.safe_load_all(file)

problems = []


def expect(what, given, wanted):
    if given != wanted:
        problems.append(f"{what}: {given!r}, not {wanted!r}")


def known(what, mapping, keys):
    for key in mapping:
        if key not in keys:
            problems.append(f"{what}: unknown key {key}")


expect("claim", (claim["apiVersion"], claim["kind"]), ("v1", "PersistentVolumeClaim"))
for job in (study, merge):
    name = job["metadata"]["name"]
    expect(name, (job["apiVersion"], job["kind"]), ("batch/v1", "Job"))
    known(name, job["spec"], {"completionMode", "completions", "parallelism", "backoffLimit",
                              "suspend", "template"})
    pod = job["spec"]["template"]["spec"]
    known(name + " pod", pod, {"restartPolicy", "securityContext", "containers", "volumes"})
    expect(name + " is not root", pod["securityContext"]["runAsNonRoot"], True)
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        known(name + " container", container,
              {"name", "image", "command", "args", "resources", "volumeMounts"})
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        expect(name + " volumes", mounts, volumes)
    claims = {volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]
              if "persistentVolumeClaim" in volume}
    expect(name + " claim", claims, {claim["metadata"]["name"]})

count = study["spec"]["completions"]
expect("completionMode", study["spec"]["completionMode"], "Indexed")
expect("parallelism", study["spec"]["parallelism"], count)
part = study["spec"]["template"]["spec"]["containers"][0]["args"][0]
expect("shares of --part", re.findall(r"\+ 1\)\)/(\d+)", part), [str(count)])
joined = merge["spec"]["template"]["spec"]["containers"][0]["args"][0]
expect("shares of --merge", re.findall(r"-of-(\d+)", joined), [str(count)])
# The directory of the shares: OUT of a study alone.
expect("where shares are", re.findall(r"--out (\S+)", part)[0] + "/part-*",
       re.findall(r"--merge (\S+)-of-", joined)[0])

for problem in problems:
    print(f"deploy/kubernetes/study.yaml: {problem}")
sys.exit(1 if problems else 0)

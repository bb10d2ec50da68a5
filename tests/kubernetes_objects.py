#!/usr/bin/env python3
"""Checks Kubernetes objects against the models of Kubernetes' own client, and what must agree.

The models come from the API's schema: each key must be one of its kind, have its type, and none
that is required may be missing. Then: claims, config maps and volumes that are mounted exist,
selectors find their pods, and every named service is there. A cluster checks more.
Usage: tests/kubernetes_objects.py FILE...
Exit code: 0 sound, 1 not, 77 python3-kubernetes is missing.
"""
import re
import sys

try:
    import yaml
    from kubernetes import client
except ImportError:
    print("skipped: python3-kubernetes or python3-yaml is missing")
    sys.exit(77)

PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float)}
GIVEN = {"keys", "public-keys"}  # Secret and ConfigMap that are made by hand
problems = []


def check(where, value, kind):
    """`value` is of `kind`, a name as the client writes it: list[V1Volume], dict(str, str), int."""
    inner = re.fullmatch(r"(list|dict)[\[(](?:str, )?(.*)[\])]", kind)
    if inner and inner[1] == "list" and isinstance(value, list):
        for i, item in enumerate(value):
            check(f"{where}[{i}]", item, inner[2])
    elif inner and inner[1] == "dict" and isinstance(value, dict):
        for key, item in value.items():
            check(f"{where}.{key}", item, inner[2])
    elif kind in PLAIN:
        if not isinstance(value, PLAIN[kind]):
            problems.append(f"{where}: {value!r} is no {kind}")
    elif kind == "object":
        pass
    elif inner or not isinstance(value, dict):
        problems.append(f"{where}: {value!r} is no {kind}")
    else:
        model = getattr(client, kind)
        known = {name: attribute for attribute, name in model.attribute_map.items()}
        for key, item in value.items():
            if key in known:
                check(f"{where}.{key}", item, model.openapi_types[known[key]])
            else:
                problems.append(f"{where}: {kind} has no key {key}")
        try:
            model(**{known[key]: item for key, item in value.items() if key in known})
        except ValueError as error:
            problems.append(f"{where}: {error}")


def check_pod(where, template, claims):
    pod = template["spec"]
    if not pod["securityContext"]["runAsNonRoot"] or pod["securityContext"]["runAsUser"] == 0:
        problems.append(f"{where}: may be root")
    volumes = {volume["name"] for volume in pod["volumes"]} | claims
    for container in pod["initContainers"] + pod["containers"]:
        for mount in container["volumeMounts"]:
            if mount["name"] not in volumes:
                problems.append(f"{where}: no volume {mount['name']}")
    for volume in pod["volumes"]:
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim and ("PersistentVolumeClaim", claim) not in names:
            problems.append(f"{where}: no claim {claim}")
        for source in [volume] + volume.get("projected", {}).get("sources", []):
            name = source.get("configMap", {}).get("name")
            if name and name not in GIVEN and ("ConfigMap", name) not in names:
                problems.append(f"{where}: no config map {name}")
    # Every endpoint is at a service of the file.
    for host in re.findall(r"tcp://([^:]+):", " ".join(pod["containers"][0]["args"])):
        if host != "0.0.0.0" and ("Service", host.rpartition(".")[2]) not in names:
            problems.append(f"{where}: no service for {host}")


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        objects = list(yaml.safe_load_all(file))
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in objects
              if "template" in each.get("spec", {})]
    for each in objects:
        where = f"{path}: {each['kind']} {each['metadata']['name']}"
        check(where, each, "V1" + each["kind"])
        spec = each.get("spec", {})
        selector = spec.get("selector", {})
        selector = selector.get("matchLabels", selector)
        if selector and selector not in labels:
            problems.append(f"{where}: selects no pod")
        if "template" in spec:
            check_pod(where, spec["template"],
                      {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])})

for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)

#!/bin/sh
# Runs a real cluster for some minutes and fails where something grows in a node.
# Usage: tests/soak.sh MINUTES [OPTION...]   (tests/soak.py has the options and the rule)
exec python3 "$(dirname "$0")/soak.py" "$@"

#!/usr/bin/env bash
# Installs nnvk and classifies pictures with it; the result goes to demo-out/. Further arguments go to `nnvk demo`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/install.sh
.venv/bin/nnvk demo --out demo-out "$@"

#!/usr/bin/env bash
# The live page in a real browser, beside a real run: Debian's headless Chromium and its driver, and
# axe-core from npm for labels and contrast. docs/web.md
#   tests/web/run.sh                     everything
#   tests/web/run.sh --only phone        only checks with that in their name
#   tests/web/run.sh --pictures FOLDER   screenshots, too
#   tests/web/run.sh --json              the last line is one object: passed, failed, skipped
set -euo pipefail
cd "$(dirname "$0")/../.."
source tools/needs.sh
install_missing chromium chromium-driver python3-selenium fonts-noto-core
if [[ -z ${DEDLOC:-} ]]; then
    install_missing "${needs_build[@]}"
    build release dedloc dedloc-trainer
    export DEDLOC=$PWD/build/release/bin/dedloc
fi
# Without it the checks that need it are skipped, and say so.
export AXE=${AXE:-build/web/node_modules/axe-core/axe.min.js}
if [[ ! -e $AXE ]] && command -v npm >/dev/null; then
    npm install --silent --no-audit --no-fund --prefix build/web axe-core@4.14.1 >&2 || true
fi
PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 tests/web/test_page.py "$@"

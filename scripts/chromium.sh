#!/usr/bin/env bash
# Find Chromium or install it: the system's package as root, else Playwright's own. Never fails the setup:
# without a browser the browser tests say so, and fail where PLAYPROOF_REQUIRE_CHROMIUM=1.
# Usage: scripts/chromium.sh PYTHON
set -u
python="${1:?usage: scripts/chromium.sh PYTHON}"

found() { "$python" -m playproof.record.feeds.chromium; }

if path="$(found)"; then
    echo "chromium: $path"
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "chromium: not found; installing the system's package" >&2
    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium
    if path="$(found)"; then
        echo "chromium: $path"
        exit 0
    fi
fi
echo "chromium: not found; asking Playwright for its own" >&2
"$python" -m playwright install chromium
if path="$(found)"; then
    echo "chromium: $path"
    exit 0
fi
cat >&2 <<'END'
************************************************************************
* No Chromium, and none could be installed: BROWSER TESTS WILL NOT RUN. *
* Install one (Debian: apt-get install chromium), or point              *
* PLAYPROOF_CHROMIUM at one, and run `make setup` again.                *
************************************************************************
END
exit 0

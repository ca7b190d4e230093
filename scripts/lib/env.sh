# shellcheck shell=sh
# Sourced by every script in scripts/: where the checkout is, and its private tools on PATH.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
tools=$root/.tools

# .tools/go exists only where the machine has no usable Go, so it goes first; /usr/local/go is
# where Go's own archives land, and is often missing from a non-login shell's PATH.
PATH=$tools/go/bin:$tools/glsl/bin:$PATH:/usr/local/go/bin
# Distributions patch Go to never fetch a newer toolchain; go.mod names the one that is needed.
GOTOOLCHAIN=${GOTOOLCHAIN:-auto}
export PATH GOTOOLCHAIN

say() { printf '%s: %s\n' "${0##*/}" "$*"; }
die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

# lavapipe_manifest prints the path of the system's lavapipe driver manifest, or fails.
lavapipe_manifest() {
	for f in /usr/share/vulkan/icd.d/lvp_icd*.json /etc/vulkan/icd.d/lvp_icd*.json; do
		[ -e "$f" ] && printf '%s\n' "$f" && return
	done
	return 1
}

# shellcheck shell=sh
# Where vkc finds the GLSL tools of .tools/glsl: in a copy in the user's data directory, which outlives this checkout. A
# link vkc/tools names the copy, tools-VERSION/bin. Sourced by scripts/setup after prefix.sh and toolchain.sh.

# registered prints where vkc looks for the user's own tools; fails where there is no data directory.
registered() {
	case ${XDG_DATA_HOME:-} in
	/*) echo "$XDG_DATA_HOME/vkc/tools" ;;
	*) case ${HOME:-} in /*) echo "$HOME/.local/share/vkc/tools" ;; *) return 1 ;; esac ;;
	esac
}

# register_glsl makes vkc find the GLSL tools of .tools/glsl. A link that works is left alone, but for one into a
# checkout's .tools, which goes with the checkout, and for one to a copy that an older recipe made. So checkouts of
# one user do not take the link from each other.
register_glsl() {
	link=$(registered) || {
		say "no home directory, so vkc finds .tools/glsl only through PATH or VKC_TOOLS"
		return 0
	}
	names=$(readlink "$link" 2>/dev/null || true)
	if ! prefix_done glsl "$glsl_recipe"; then
		[ -z "$names" ] || [ -e "$link" ] || forget "$names"
		return 0
	fi
	case $names in
	'') [ ! -e "$link" ] || { say "leaving $link as it is: vkc takes the GLSL tools in it"; return 0; } ;;
	*/.tools/glsl/bin) ;;
	tools-*/bin) [ ! -e "$link" ] || older "$names" || return 0 ;;
	*) [ ! -e "$link" ] || { say "leaving $link as it is: vkc takes the GLSL tools of $names"; return 0; } ;;
	esac
	if copy_glsl "${link%/*}" && ln -s "$version/bin" "$link.$$" && mv -fT "$link.$$" "$link"; then
		say "vkc takes the GLSL tools of ${link%/*}/$version now, a copy of those of .tools/glsl"
	else
		rm -f "$link.$$"
		say "cannot write $link, so vkc finds .tools/glsl only through PATH or VKC_TOOLS"
	fi
}

# forget LINK: removes a dangling link that scripts/setup has made, and tells of another.
forget() {
	case $1 in
	*/.tools/glsl/bin | tools-*/bin) rm -f "$link" && say "removed $link: $1 is gone" ;;
	*) say "$link leads nowhere ($1 is gone): please remove it" ;;
	esac
}

# older NAME: whether a copy is of another recipe than this checkout's, with a smaller number.
older() {
	read -r _ made <"${link%/*}/${1%/bin}/.done" 2>/dev/null || made=0
	[ "$made" -lt "${glsl_recipe#glsl }" ]
}

# copy_glsl DIR: copies .tools/glsl to DIR/$version, unless that is there. The version follows from all packages in it.
copy_glsl() {
	version=tools-$(sha256sum <"$tools/glsl/.done" | cut -c 1-12)
	[ ! -e "$1/$version/.done" ] || return 0
	(
		umask 077
		new=$1/.new-$$
		mkdir -p "$1" && rm -rf "$new" && cp -RP "$tools/glsl" "$new" && rm -rf "${1:?}/$version" &&
			mv "$new" "$1/$version" || { rm -rf "$new"; false; }
	)
}

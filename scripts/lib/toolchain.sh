# shellcheck shell=sh
# What goes into each private prefix, and how it is probed. Sourced by scripts/setup after prefix.sh.
# A probe asks for the feature itself: version numbers of these tools do not tell.

go_recipe='go 1'
glsl_recipe='glsl 1'
vulkan_recipe='vulkan 1'
drivers_recipe='drivers 1'
wine_recipe='wine 1'
arm64_recipe='arm64 1'

# Debian's Go programs are static, so they need no libc of their own.
build_go() {
	unpack "$1" "$2" golang-1.26-go || return 1
	ln -s usr/lib/go-1.26/bin "$1/bin"
	"$1/bin/go" version >>"$scratch/log" 2>&1
}

build_glsl() {
	unpack "$1" "$2" glslang-tools glslc spirv-tools libc6 && private_libc "$1" || return 1
	mkdir "$1/bin"
	for p in glslangValidator glslc spirv-opt spirv-val spirv-dis spirv-as; do
		cp "$root/scripts/lib/run-private" "$1/bin/$p" || return 1
	done
	probe_glsl "$1/bin/" coopmat
}

# The prefix holds lavapipe only: a GPU's driver must be the system's, which matches its kernel.
build_vulkan() {
	unpack "$1" "$2" mesa-vulkan-drivers vulkan-validationlayers vulkan-tools libvulkan1 libc6 &&
		private_libc "$1" || return 1
	find "$1/lib/" -maxdepth 1 -name 'libvulkan_*.so' ! -name libvulkan_lvp.so -exec rm {} + &&
		find "$1/lib/" -maxdepth 1 -name 'libVkLayer_*.so' ! -name libVkLayer_khronos_validation.so -exec rm {} +
	mkdir "$1/layers"
	# A relative library_path is taken from the manifest's own folder.
	sed 's#"library_path": *"[^"]*"#"library_path": "./lib/libvulkan_lvp.so"#' \
		"$1"/usr/share/vulkan/icd.d/lvp_icd*.json >"$1/lvp.json" &&
		sed 's#"library_path": *"[^"]*"#"library_path": "../lib/libVkLayer_khronos_validation.so"#' \
			"$1"/usr/share/vulkan/explicit_layer.d/*hronos_validation.json >"$1/layers/khronos_validation.json" &&
		cp "$root/scripts/lib/run-lavapipe" "$1/run" || return 1
	"$1/run" "$1/usr/bin/vulkaninfo" --summary >"$scratch/log" 2>&1 &&
		grep -q llvmpipe "$scratch/log" && grep -q VK_LAYER_KHRONOS_validation "$scratch/log"
}

# The drivers of GPUs that are not here: Mesa's, with the kernel's side replaced (mesa-drm-shim), so that they
# report and compile but run nothing; lavapipe of the same version; and SwiftShader, which Chromium brings.
build_drivers() {
	unpack "$1" "$2" mesa-vulkan-drivers mesa-drm-shim vulkan-tools libvulkan1 libc6 libstdc++6 && private_libc "$1" &&
		unpack_file "$1" chromium-common ./usr/lib/chromium/libvk_swiftshader.so || return 1
	mkdir "$1/icd"
	for manifest in "$1"/usr/share/vulkan/icd.d/*.json; do
		vendor=${manifest##*/} vendor=${vendor%_icd*}
		sed "s#\"library_path\": *\"[^\"]*\"#\"library_path\": \"../lib/libvulkan_$vendor.so\"#" "$manifest" >"$1/icd/$vendor.json"
	done
	echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "../usr/lib/chromium/libvk_swiftshader.so",' \
		'"api_version": "1.3.0"}}' >"$1/icd/swiftshader.json"
	cp "$root/scripts/lib/run-driver" "$1/run" || return 1
	for driver in radv:navi31 lavapipe; do
		VKC_DRIVER=$driver "$1/run" "$1/usr/bin/vulkaninfo" --summary >"$scratch/log" 2>&1 &&
			grep -q deviceName "$scratch/log" || return 1
	done
}

# Wine, and lavapipe behind its vulkan-1.dll. The folder "home" is what Windows has on C:.
build_wine() {
	unpack "$1" "$2" wine64 libz-mingw-w64 mesa-vulkan-drivers libvulkan1 libc6 && private_libc "$1" || return 1
	dlls=$1/usr/lib/x86_64-linux-gnu/wine
	zlib=usr/x86_64-w64-mingw32/lib/zlib1.dll # packages link it where they are installed
	rm -rf "$dlls/i386-windows" &&
		ln -sf wineserver64 "$1/usr/lib/wine/wineserver" && # in place of a script that starts the system's
		ln -s "../../../../../$zlib" "$dlls/x86_64-windows/zlib1.dll" &&
		cp "$root/scripts/lib/run-wine" "$1/run" || return 1
	# It fails over what 32-bit programs need, which is left out; what matters is there afterwards.
	"$1/run" wineboot -i </dev/null >"$scratch/log" 2>&1 || true
	cp "$1/$zlib" "$1/home/drive_c/windows/system32/" || return 1
	WINEPREFIX="$1/home" "$1/ld.so" --library-path "$1/lib" "$1/usr/lib/wine/wineserver64" -k
	[ -e "$1/home/drive_c/windows/system32/vulkan-1.dll" ]
}

# Lavapipe for arm64, to run under qemu-user.
build_arm64() {
	arch=arm64
	unpack "$1" "$2" mesa-vulkan-drivers vulkan-tools libvulkan1 libc6 && arch='' || return 1
	ln -s usr/lib "$1/lib"
	sed 's#"library_path": *"[^"]*"#"library_path": "./usr/lib/aarch64-linux-gnu/libvulkan_lvp.so"#' \
		"$1"/usr/share/vulkan/icd.d/lvp_icd*.json >"$1/lvp.json" &&
		cp "$root/scripts/lib/run-arm64" "$1/run" || return 1
	"$1/run" "$1/usr/bin/vulkaninfo" --summary >"$scratch/log" 2>&1 && grep -q llvmpipe "$scratch/log"
}

# probe_glsl BIN/ FEATURE: whether glslangValidator, spirv-opt, spirv-val and (not every distribution
# has it) glslc in BIN/ all take a shader that uses FEATURE: plain, coopmat or bfloat16. BIN/ empty
# means those on PATH.
probe_glsl() {
	{
		echo '#version 460'
		case $2 in
		coopmat | bfloat16)
			echo '#extension GL_KHR_cooperative_matrix : require'
			echo '#extension GL_KHR_memory_scope_semantics : require'
			;;
		esac
		[ "$2" != bfloat16 ] || echo '#extension GL_EXT_bfloat16 : require'
		echo 'layout(local_size_x = 32) in;'
		echo 'layout(binding = 0) buffer B { float x[]; };'
		echo 'void main() {'
		case $2 in
		plain) echo '  x[gl_GlobalInvocationID.x] *= 2.0;' ;;
		*)
			echo '  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> c;'
			echo '  coopMatLoad(c, x, 0, 16, gl_CooperativeMatrixLayoutRowMajor);'
			echo '  coopMatStore(c, x, 0, 16, gl_CooperativeMatrixLayoutRowMajor);'
			;;
		esac
		[ "$2" != bfloat16 ] || echo '  bfloat16_t b = bfloat16_t(x[0]); x[0] = float(b);'
		echo '}'
	} >"$scratch/probe.comp"
	spv=$scratch/probe.spv
	{
		"$1glslangValidator" --target-env vulkan1.2 -o "$spv" "$scratch/probe.comp" &&
			"$1spirv-val" --target-env vulkan1.2 "$spv" &&
			"$1spirv-opt" -O "$spv" -o "$spv" &&
			{ ! has "$1glslc" || "$1glslc" --target-env=vulkan1.2 -o "$spv" "$scratch/probe.comp"; }
	} >>"$scratch/log" 2>&1
}

# system_lavapipe_is_new: whether the distribution's own lavapipe has cooperative matrices and works
# with the tools at hand, so that no private one is needed.
system_lavapipe_is_new() {
	has vulkaninfo && icd=$(lavapipe_manifest) || return 1
	VK_DRIVER_FILES=$icd VK_ICD_FILENAMES=$icd vulkaninfo 2>/dev/null | grep -q VK_KHR_cooperative_matrix
}

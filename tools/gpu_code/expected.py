"""Instructions that fast kernels need."""

import re

WIDE_READ, WIDE_COPY, PRODUCT = r"LDG\.E(\.\w+)*\.128", r"LDGSTS\.E(\.\w+)*\.128", r"HMMA\."
# Products of warpgroups, of 16 and of 8 bits; kernels that have them are empty for other targets than sm_90a.
GROUP_PRODUCT, GROUP_CODES, OF_GROUPS = r"HGMMA\.", r"QGMMA\.", r"^grouped_(code_)?warpgroups_kernel<"
# Part of the kernel's name (a regular expression), instruction, description. Each must match a kernel.
EXPECTED = [
    (r"^(elementwise|sum_rows|norm_forward|norm_forms|norm_backward|activation_forward|activation_forms|activation_backward|row_dots)_kernel<8",
     WIDE_READ, "reads of 16 bytes"),
    (r"^quantization_error_kernel<(true|1),", WIDE_READ, "reads of 16 bytes"),
    (r"^quantize_tiles_kernel<", WIDE_READ, "reads of 16 bytes"),
    (r"^(forward|backward_keys|backward_queries)_kernel<(F16|Bf16|Code),", PRODUCT, "products of the matrix units"),
    (r"^(forward|backward_keys|backward_queries)_kernel<(F16|Bf16|float),", WIDE_COPY, "copies of 16 bytes to shared memory"),
    (r"^(forward|backward_keys|backward_queries)_kernel<Code,", WIDE_READ, "reads of 16 bytes"),
    (r"^(scores|values|keys)_kernel<", PRODUCT, "products of the matrix units"),
    (r"^(scores|values|keys)_kernel<", WIDE_COPY, "copies of 16 bytes to shared memory"),
    (r"^grouped_(gemm|codes)_kernel<", PRODUCT, "products of the matrix units"),
    (r"^grouped_gemm_kernel<.*, (true|1)>$", WIDE_COPY, "copies of 16 bytes to shared memory"),
    (r"^grouped_warpgroups_kernel<", GROUP_PRODUCT, "products of warpgroups"),
    (r"^grouped_warpgroups_kernel<", WIDE_COPY, "copies of 16 bytes to shared memory"),
    (r"^grouped_code_warpgroups_kernel<", GROUP_CODES, "products of warpgroups"),
]


def problems(kernels):
    found = []
    warpgroups = any(k.target == "sm_90a" for k in kernels)
    for name, instruction, what in EXPECTED:
        if re.search(OF_GROUPS, name.removeprefix("^")) and not warpgroups:
            continue
        named = [k for k in kernels if re.search(name, k.name) and (k.target == "sm_90a" or not re.search(OF_GROUPS, k.name))]
        if not named:
            found.append(f"no kernel is called {name}: it should have {what}")
        found += [f"{k.target}: {k.name} has no {what} ({instruction})" for k in named
                  if not any(re.match(instruction, o) for o in k.opcodes)]
    return found

//! The processor: a program that used a feature elsewhere must find it here.

/// What programs can tell about a processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Model, for people.
    pub model: String,
    /// Features, sorted, by the names of `/proc/cpuinfo`.
    pub features: Vec<String>,
    /// Bytes of the extended state that the kernel saves for a thread (CPUID 0xD), as enabled now.
    pub xsave_bytes: u32,
}

/// CPU features that user programs may find and use, as /proc/cpuinfo names them (kernel:
/// arch/x86/include/asm/cpufeatures.h). Names that concern only the kernel (mitigations,
/// virtualisation, power) do not keep a program from running elsewhere.
pub const PROGRAM_FEATURES: &[&str] = &[
    "3dnow",
    "3dnowext",
    "abm",
    "adx",
    "aes",
    "amx_bf16",
    "amx_complex",
    "amx_fp16",
    "amx_int8",
    "amx_tile",
    "avx",
    "avx2",
    "avx512_4fmaps",
    "avx512_4vnniw",
    "avx512_bf16",
    "avx512_bitalg",
    "avx512_fp16",
    "avx512_vbmi2",
    "avx512_vnni",
    "avx512_vp2intersect",
    "avx512_vpopcntdq",
    "avx512bw",
    "avx512cd",
    "avx512dq",
    "avx512er",
    "avx512f",
    "avx512ifma",
    "avx512pf",
    "avx512vbmi",
    "avx512vl",
    "avx_ifma",
    "avx_ne_convert",
    "avx_vnni",
    "avx_vnni_int8",
    "avx10",
    "bmi1",
    "bmi2",
    "cldemote",
    "clflush",
    "clflushopt",
    "clwb",
    "clzero",
    "cmov",
    "cx16",
    "cx8",
    "enqcmd",
    "erms",
    "f16c",
    "fma",
    "fma4",
    "fpu",
    "fsgsbase",
    "fsrm",
    "fxsr",
    "gfni",
    "hle",
    "lahf_lm",
    "lzcnt",
    "mmx",
    "mmxext",
    "monitorx",
    "movbe",
    "movdir64b",
    "movdiri",
    "mpx",
    "osxsave",
    "pclmulqdq",
    "pku",
    "pni",
    "popcnt",
    "prefetchwt1",
    "rdpid",
    "rdpru",
    "rdrand",
    "rdseed",
    "rdtscp",
    "rtm",
    "serialize",
    "sha512",
    "sha_ni",
    "sm3",
    "sm4",
    "sse",
    "sse2",
    "sse4_1",
    "sse4_2",
    "sse4a",
    "ssse3",
    "tbm",
    "tsc",
    "tsxldtrk",
    "user_shstk",
    "vaes",
    "vpclmulqdq",
    "waitpkg",
    "wbnoinvd",
    "xgetbv1",
    "xop",
    "xsave",
    "xsavec",
    "xsaveopt",
];

impl Cpu {
    /// Lists those of its features that programs can use.
    pub fn of_programs(&self) -> Vec<String> {
        self.features.iter().filter(|f| PROGRAM_FEATURES.contains(&f.as_str())).cloned().collect()
    }
}

/// This machine's processor.
pub fn cpu() -> Cpu {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Cpu { xsave_bytes: xsave_bytes(), ..parse(&text) }
}

fn parse(cpuinfo: &str) -> Cpu {
    let value = |key: &str| {
        cpuinfo.lines().filter_map(|line| line.split_once(':')).find(|(k, _)| k.trim() == key).map(|(_, v)| v.trim())
    };
    let mut features: Vec<String> = value("flags").unwrap_or_default().split_whitespace().map(String::from).collect();
    features.sort_unstable();
    features.dedup();
    Cpu { model: value("model name").unwrap_or_default().into(), features, xsave_bytes: 0 }
}

fn xsave_bytes() -> u32 {
    use std::arch::x86_64::__cpuid_count;
    if __cpuid_count(0, 0).eax < 0xd { 0 } else { __cpuid_count(0xd, 0).ebx }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_and_features_are_read() {
        let cpu = parse(
            "processor\t: 0\nmodel name\t: Some CPU @ 2: GHz\nflags\t\t: sse fpu sse\n\nprocessor\t: 1\nflags: x\n",
        );
        assert_eq!((cpu.model.as_str(), cpu.features.join(" ").as_str()), ("Some CPU @ 2: GHz", "fpu sse"));
        assert_eq!(parse(""), Cpu::default());
    }
}

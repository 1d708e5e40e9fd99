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

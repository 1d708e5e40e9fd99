//! Line plots as SVG.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

/// One line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Points, in order of x.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Colours that colour-blind readers can tell apart (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
/// Patterns of lines. Each serves as many curves as there are colours.
const DASHES: [&str; 3] = ["", " stroke-dasharray=\"6 3\"", " stroke-dasharray=\"2 2\""];

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from zero on.
    Linear,
    /// By powers of ten; values that are not above zero are left out.
    Logarithmic,
}

/// The label of an axis, and its scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisLabel<'a> {
    /// What the axis shows, with its unit.
    pub text: &'a str,
    /// How values lie on the axis.
    pub scale: Scale,
}

impl<'a> AxisLabel<'a> {
    /// Labels a linear axis.
    pub fn linear(text: &'a str) -> AxisLabel<'a> {
        AxisLabel { text, scale: Scale::Linear }
    }

    /// Labels a logarithmic axis.
    pub fn logarithmic(text: &'a str) -> AxisLabel<'a> {
        AxisLabel { text, scale: Scale::Logarithmic }
    }
}

/// An axis with its range of values.
struct Axis {
    scale: Scale,
    least: f64,
    most: f64,
}

impl Axis {
    fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Axis {
        let values: Vec<f64> = values.filter(|v| v.is_finite() && (scale == Scale::Linear || *v > 0.0)).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        match scale {
            Scale::Linear => Axis { scale, least: 0.0, most: nice(most) },
            Scale::Logarithmic if values.is_empty() => Axis { scale, least: 0.0, most: 1.0 },
            Scale::Logarithmic => {
                let least = values.iter().copied().fold(f64::MAX, f64::min).log10().floor();
                Axis { scale, least, most: most.log10().ceil().max(least + 1.0) }
            }
        }
    }

    fn has(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Gives the position of a value on the axis, from 0 to 1.
    fn at(&self, value: f64) -> f64 {
        let value = if self.scale == Scale::Linear { value } else { value.log10() };
        (value - self.least) / (self.most - self.least)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => (0..=5).map(|step| self.most * f64::from(step) / 5.0).collect(),
            Scale::Logarithmic => (self.least as i32..=self.most as i32).map(|power| 10f64.powi(power)).collect(),
        }
    }
}

/// Draws a plot of the curves on linear axes, as SVG.
pub fn svg(title: &str, x: &str, y: &str, curves: &[Curve]) -> String {
    svg_scaled(title, AxisLabel::linear(x), AxisLabel::linear(y), curves)
}

/// Draws a plot of the curves, as SVG.
pub fn svg_scaled(title: &str, x: AxisLabel, y: AxisLabel, curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|c| &c.points);
    let (across, up) = (Axis::of(x.scale, points().map(|p| p.0)), Axis::of(y.scale, points().map(|p| p.1)));
    let at_x = |v: f64| LEFT + across.at(v) * (WIDTH - LEFT - RIGHT);
    let at_y = |v: f64| HEIGHT - BOTTOM - up.at(v) * (HEIGHT - TOP - BOTTOM);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let text = |x: f64, y: f64, anchor: &str, words: &str| {
        format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escaped(words))
    };
    out += &text(WIDTH / 2.0, 22.0, "middle", title);
    out += &text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0, "middle", x.text);
    out += &text(8.0, TOP - 10.0, "start", y.text);
    for vx in across.ticks() {
        out += &text(at_x(vx), HEIGHT - BOTTOM + 18.0, "middle", &number(vx));
    }
    for vy in up.ticks() {
        out += &text(LEFT - 8.0, at_y(vy) + 4.0, "end", &number(vy));
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
            WIDTH - RIGHT,
            at_y(vy),
            at_y(vy)
        );
    }
    for (number, curve) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let dash = DASHES[(number / COLOURS.len()) % DASHES.len()];
        let points = curve.points.iter().filter(|p| across.has(p.0) && up.has(p.1));
        let points: Vec<String> = points.map(|p| format!("{:.1},{:.1}", at_x(p.0), at_y(p.1))).collect();
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash} points=\"{}\"/>",
            points.join(" ")
        );
        let y = TOP + 18.0 * number as f64;
        let _ = writeln!(
            out,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"3\"{dash}/>",
            WIDTH - RIGHT + 8.0,
            WIDTH - RIGHT + 28.0
        );
        out += &text(WIDTH - RIGHT + 32.0, y + 6.0, "start", &curve.name);
    }
    out + "</svg>\n"
}

/// Rounds up to a number of the form 1, 2, 2.5 or 5 times a power of ten.
fn nice(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 2.5, 5.0].into_iter().map(|n| n * power).find(|n| *n >= value).unwrap_or(10.0 * power)
}

fn number(value: f64) -> String {
    if value.fract().abs() < 1e-9 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_equally_far() {
        let axis = Axis::of(Scale::Logarithmic, [0.0, 0.2, 30.0, f64::NAN].into_iter());
        assert_eq!(axis.ticks(), [0.1, 1.0, 10.0, 100.0]);
        assert!((axis.at(10.0) - 2.0 / 3.0).abs() < 1e-9 && !axis.has(0.0));
        let curve = Curve { name: "a".into(), points: vec![(0.0, 5.0), (1.0, 10.0)] };
        let plot = svg_scaled("t", AxisLabel::logarithmic("n"), AxisLabel::logarithmic("s"), &[curve]);
        assert!(!plot.contains("inf") && !plot.contains("NaN"));
        assert_eq!(Axis::of(Scale::Logarithmic, std::iter::empty()).ticks(), [1.0, 10.0]);
    }

    #[test]
    fn no_two_curves_look_alike() {
        let curve = |n: u32| Curve { name: n.to_string(), points: vec![(0.0, 0.0), (1.0, f64::from(n))] };
        let curves: Vec<Curve> = (0..18).map(curve).collect();
        let plot = svg("t", "n", "s", &curves);
        let style = |line: &str| line.split(" points").next().unwrap_or_default().to_owned();
        let styles: std::collections::BTreeSet<_> =
            plot.lines().filter(|l| l.contains("<polyline")).map(style).collect();
        assert_eq!(styles.len(), 18);
    }

    #[test]
    fn plots_are_whole() {
        let curve = Curve { name: "a<b".into(), points: vec![(1.0, 2.0), (3.0, f64::NAN), (4.0, 7.0)] };
        let plot = svg("t & u", "n", "s", &[curve]);
        assert!(plot.starts_with("<svg") && plot.ends_with("</svg>\n") && plot.contains("t &amp; u"));
        assert!(plot.contains("a&lt;b") && !plot.contains("NaN"));
        assert_eq!((nice(0.0), nice(7.0), nice(230.0)), (1.0, 10.0, 250.0));
    }
}

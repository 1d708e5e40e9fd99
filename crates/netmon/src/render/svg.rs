//! A picture of one queue over time, as Figs. 2 and 3 of the paper: a cross for each sample that
//! changed, and a line for the limit.

use std::fmt::Write as _;

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// More points than this are drawn as the lowest and highest of each stretch of time.
const POINTS_MAX: usize = 2000;
/// More points than this get no crosses.
const CROSSES_MAX: usize = 400;

/// A value of a queue from a time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When, microseconds from the start.
    pub at_us: u64,
    /// The length of the queue.
    pub number: u64,
}

/// A queue over time.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// The column that is drawn.
    pub title: String,
    /// Name of the vertical axis.
    pub unit: String,
    /// The values, in order of time.
    pub points: Vec<Point>,
    /// The limit, if one is known.
    pub limit: Option<u64>,
    /// The end of the time, microseconds from the start.
    pub end_us: u64,
}

/// Draws a curve.
pub fn draw(curve: &Curve) -> String {
    let points = thinned(&curve.points);
    let most = points.iter().map(|point| point.number).chain(curve.limit).max().unwrap_or(0).max(1);
    let end_us = points.last().map_or(0, |point| point.at_us).max(curve.end_us).max(1);
    let scale = Scale { most: most as f64 * 1.05, end_us: end_us as f64 };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"14\">{}</text>\n",
        escaped(&curve.title)
    );
    axes(&mut svg, &scale, curve);
    if let Some(limit) = curve.limit {
        let y = scale.y(limit);
        let _ =
            writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{:.1}\" stroke=\"#c00\" stroke-dasharray=\"6 4\"/>", WIDTH - RIGHT);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#c00\">limit {limit}</text>",
            WIDTH - RIGHT,
            y - 4.0
        );
    }
    steps(&mut svg, &scale, &points, end_us);
    svg + "</svg>\n"
}

struct Scale {
    most: f64,
    end_us: f64,
}

impl Scale {
    fn x(&self, at_us: u64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * at_us as f64 / self.end_us
    }

    fn y(&self, number: u64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * number as f64 / self.most
    }
}

fn axes(svg: &mut String, scale: &Scale, curve: &Curve) {
    const PARTS: u64 = 5;
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let _ = writeln!(svg, "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>");
    for part in 0..=PARTS {
        let share = part as f64 / PARTS as f64;
        let (number, seconds) = (scale.most * share / 1.05, scale.end_us * share / 1e6);
        let (x, y) = (LEFT + (right - LEFT) * share, scale.y(number as u64));
        let _ =
            writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{number:.0}</text>", LEFT - 6.0, y + 4.0);
        let _ =
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{seconds:.3}</text>", bottom + 18.0);
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">time (s)</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 12.0
    );
    let _ = writeln!(
        svg,
        "<text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        (TOP + bottom) / 2.0,
        escaped(&curve.unit)
    );
}

/// Draws the values as steps: each holds until the next one.
fn steps(svg: &mut String, scale: &Scale, points: &[Point], end_us: u64) {
    let Some(first) = points.first() else { return };
    let mut path = format!("M{:.1} {:.1}", scale.x(first.at_us), scale.y(first.number));
    for point in &points[1..] {
        let _ = write!(path, "H{:.1}V{:.1}", scale.x(point.at_us), scale.y(point.number));
    }
    let _ = write!(path, "H{:.1}", scale.x(end_us));
    let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"#06c\"/>");
    if points.len() <= CROSSES_MAX {
        for point in points {
            let (x, y) = (scale.x(point.at_us), scale.y(point.number));
            let _ = writeln!(svg, "<path d=\"M{:.1} {:.1}l6 6m0 -6l-6 6\" stroke=\"#06c\"/>", x - 3.0, y - 3.0);
        }
    }
}

/// Keeps the lowest and the highest point of each stretch of time, if there are too many.
fn thinned(points: &[Point]) -> Vec<Point> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(POINTS_MAX / 2);
    let mut kept = Vec::new();
    for part in points.chunks(stretch) {
        let lowest = part.iter().enumerate().min_by_key(|(_, point)| point.number);
        let highest = part.iter().enumerate().max_by_key(|(_, point)| point.number);
        let mut both: Vec<usize> = lowest.into_iter().chain(highest).map(|(index, _)| index).collect();
        both.sort_unstable();
        both.dedup();
        kept.extend(both.into_iter().map(|index| part[index]));
    }
    kept
}

/// Makes text safe in XML; other control characters than these are not allowed there.
fn escaped(text: &str) -> String {
    let kept = text.chars().filter(|c| !c.is_control());
    let mut safe = String::new();
    for c in kept {
        match c {
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '&' => safe += "&amp;",
            '"' => safe += "&quot;",
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_its_limit_and_a_cross_for_each_point() {
        let points = (0..22).map(|n| Point { at_us: n * 1000, number: n * 2_097_152 }).collect();
        let curve =
            Curve { title: "a <b> & c".into(), unit: "bytes".into(), points, limit: Some(65535), end_us: 30_000 };
        let svg = draw(&curve);
        assert_eq!(svg.matches("l6 6m0 -6l-6 6").count(), 22);
        assert!(svg.contains("limit 65535") && svg.contains("a &lt;b&gt; &amp; c"));
    }

    #[test]
    fn many_points_are_thinned_and_keep_their_extremes() {
        let points: Vec<Point> = (0..100_000).map(|n| Point { at_us: n, number: n % 1000 }).collect();
        let kept = thinned(&points);
        assert!(kept.len() <= POINTS_MAX && kept.iter().any(|p| p.number == 999) && kept.iter().any(|p| p.number == 0));
        assert!(kept.windows(2).all(|pair| pair[0].at_us < pair[1].at_us));
    }

    #[test]
    fn nothing_is_drawn_without_harm() {
        assert!(draw(&Curve::default()).ends_with("</svg>\n"));
        let one = Curve { points: vec![Point { at_us: u64::MAX, number: u64::MAX }], ..Curve::default() };
        assert!(draw(&one).contains("path"));
    }
}

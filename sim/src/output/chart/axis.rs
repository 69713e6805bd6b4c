//! An axis: from data to pixels, and where its ticks are.

/// One axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is measured, with its unit: `goodput (Mb/s)`.
    pub label: String,
    /// How it is spaced.
    pub scale: Scale,
    /// Ends of the axis; from the data when absent (a linear axis then begins at 0).
    pub range: Option<(f64, f64)>,
}

/// How an axis is spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By powers of two: numbers of senders.
    Log2,
    /// By powers of ten: times, drops.
    Log10,
}

/// An axis fitted to data and pixels.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    scale: Scale,
    /// Ends, in the scale's own measure.
    low: f64,
    high: f64,
    /// Pixels of the ends.
    from: f64,
    to: f64,
    /// Values with a tick, and their labels.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Fits the axis to `values` and to the pixels between `from` and `to`; `many` ticks are about right.
    pub(super) fn fit(&self, values: impl Iterator<Item = f64>, from: f64, to: f64, many: f64) -> Fitted {
        let usable = |value: &f64| value.is_finite() && (self.scale == Scale::Linear || *value > 0.0);
        let ends = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let (mut whole, mut data) = (true, (f64::INFINITY, f64::NEG_INFINITY));
        for value in values.filter(usable) {
            whole &= value.fract() == 0.0;
            data = ends(data, value);
        }
        let (low, high) = match self.range.filter(|(low, high)| usable(low) && usable(high)) {
            Some(range) => range,
            None if data.0 > data.1 => (1.0, 2.0),
            None if self.scale == Scale::Linear => (data.0.min(0.0), data.1),
            None if self.scale == Scale::Log10 => (round_number(data.0, false), round_number(data.1, true)),
            None => data,
        };
        // Between neighbours of a few whole numbers there is nothing to mark.
        let least = if whole && high - low >= 2.0 { 1.0 } else { 0.0 };
        let (low, high) = (self.scale.measure(low), self.scale.measure(high));
        // One value alone gets room around it.
        let (low, high) = if high - low < 1e-9 { (low - 0.5, high + 0.5) } else { (low, high) };
        let mut fitted = Fitted { scale: self.scale, low, high, from, to, ticks: Vec::new() };
        match self.scale {
            Scale::Linear => fitted.linear(many, least, self.range.is_none()),
            Scale::Log2 => fitted.powers(2.0, many),
            Scale::Log10 => fitted.powers(10.0, many),
        }
        fitted
    }
}

impl Scale {
    fn measure(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log2 => value.log2(),
            Self::Log10 => value.log10(),
        }
    }
}

impl Fitted {
    /// The pixel of a value, when it has one on this axis.
    pub(super) fn pixel(&self, value: f64) -> Option<f64> {
        let at = (self.scale.measure(value) - self.low) / (self.high - self.low);
        // A little beyond the ends is kept: lines that leave the panel are cut there.
        at.is_finite().then(|| self.from + at.clamp(-0.5, 1.5) * (self.to - self.from))
    }

    /// Steps of 1, 2 or 5 times a power of ten, of `least` at least; `stretch` moves the upper end to the next tick.
    fn linear(&mut self, many: f64, least: f64, stretch: bool) {
        let rough = ((self.high - self.low) / many).max(least);
        let ten = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|f| f * ten).find(|step| *step >= rough * 0.999).unwrap_or(rough);
        if stretch {
            self.high = (self.high / step - 1e-9).ceil() * step;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a handful of digits")]
        let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let mut value = (self.low / step - 1e-9).ceil() * step;
        while value <= self.high + step * 1e-6 && self.ticks.len() < 50 {
            let shown = if value.abs() < step * 1e-6 { 0.0 } else { value };
            self.ticks.push((value, label(shown, decimals)));
            value += step;
        }
    }

    /// Powers of `base`, every second or third one when there are too many.
    fn powers(&mut self, base: f64, many: f64) {
        let unit = self.scale.measure(base);
        let count = (self.high - self.low) / unit;
        let every = (count / (many * 1.6)).ceil().max(1.0);
        let mut power = (self.low / unit - 1e-9).ceil();
        while power * unit <= self.high + 1e-9 && self.ticks.len() < 50 {
            let value = base.powf(power);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a handful of digits")]
            let decimals = (-value.log10()).ceil().clamp(0.0, 9.0) as usize;
            self.ticks.push((value, label(value, decimals)));
            power += every;
        }
        if self.scale == Scale::Log10 && self.ticks.len() < 3 {
            // Few powers: 2 and 5 times them, too.
            let mut value = round_number(10_f64.powf(self.low), false);
            let mut ticks = Vec::new();
            while value <= 10_f64.powf(self.high) * 1.000_001 && ticks.len() < 50 {
                if value >= 10_f64.powf(self.low) * 0.999_999 {
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a handful of digits")]
                    let decimals = (-value.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
                    ticks.push((value, label(value, decimals)));
                }
                value = round_number(value * 1.1, true);
            }
            self.ticks = ticks;
        }
        if self.ticks.len() < 2 {
            // Within one power: the ends say more.
            self.ticks = [self.low, self.high].map(|end| (2_f64.powf(end), label(2_f64.powf(end), 1))).to_vec();
            if self.scale == Scale::Log10 {
                self.ticks = [self.low, self.high].map(|end| (10_f64.powf(end), label(10_f64.powf(end), 1))).to_vec();
            }
        }
    }
}

/// The next 1, 2 or 5 times a power of ten, at or above a positive number, or at or below it.
fn round_number(value: f64, up: bool) -> f64 {
    let ten = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * ten);
    let near = |step: &f64| if up { *step >= value * 0.999_999 } else { *step <= value * 1.000_001 };
    let found = if up { steps.into_iter().find(near) } else { steps.into_iter().rev().find(near) };
    found.unwrap_or(value)
}

/// Thousands apart by a thin space, no superfluous zeros.
pub(super) fn label(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let whole = if whole.len() > 4 {
        let groups: Vec<&str> =
            whole.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
        groups.join("\u{2009}")
    } else {
        whole.to_owned()
    };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{whole}{point}{fraction}", if value < 0.0 { "−" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: Scale, range: Option<(f64, f64)>, values: &[f64]) -> Vec<String> {
        let axis = Axis { label: String::new(), scale, range };
        axis.fit(values.iter().copied(), 0.0, 100.0, 5.0).ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(ticks(Scale::Linear, None, &[3.0, 947.0]), ["0", "200", "400", "600", "800", "1000"]);
        assert_eq!(ticks(Scale::Linear, Some((0.0, 0.5)), &[]), ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(ticks(Scale::Log2, None, &[1.0, 64.0]), ["1", "2", "4", "8", "16", "32", "64"]);
        assert_eq!(ticks(Scale::Linear, Some((1.0, 4.0)), &[1.0, 2.0, 4.0]), ["1", "2", "3", "4"], "no 1.5 senders");
        assert_eq!(
            ticks(Scale::Log10, None, &[240.0, 8_000.0]),
            ["200", "500", "1000", "2000", "5000", "10\u{2009}000"]
        );
        assert_eq!(ticks(Scale::Log10, None, &[0.03, 0.04]), ["0.02", "0.05"]);
        assert_eq!(ticks(Scale::Log10, None, &[0.01, 100.0]), ["0.01", "0.1", "1", "10", "100"]);
        assert_eq!(ticks(Scale::Linear, None, &[0.0, 96_000.0]).last().unwrap(), "100\u{2009}000");
    }

    #[test]
    fn values_off_the_scale_have_no_pixel() {
        let fitted =
            Axis { label: String::new(), scale: Scale::Log2, range: None }.fit([1.0, 4.0].into_iter(), 0.0, 10.0, 5.0);
        assert_eq!(fitted.pixel(2.0), Some(5.0));
        assert_eq!(fitted.pixel(0.0), None);
        assert_eq!(fitted.pixel(f64::NAN), None);
    }
}

//! A plain text table: a title, a head, and lines with their figures flush right.

/// Lines of text cells under a head.
pub(crate) struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without lines.
    pub(crate) fn new(title: &str, head: &[&str]) -> Self {
        let head = head.iter().map(|cell| (*cell).to_owned()).collect();
        Self { title: title.to_owned(), rows: vec![head] }
    }

    /// Adds a line.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as text, with an empty line after it.
    pub(crate) fn text(&self) -> String {
        let widths = self.widths();
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        let mut lines = vec![self.title.clone()];
        for row in &self.rows {
            lines.push(line(row, &widths));
        }
        // Below the title and the head.
        lines.insert(2, line(&rules, &widths));
        lines.join("\n") + "\n\n"
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        (0..columns).map(width).collect()
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
    format!("  {}", cells.collect::<Vec<_>>().join("  "))
}

/// A figure with as many digits as it deserves.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        "-".to_owned()
    } else if value.abs() < 10.0 {
        format!("{value:.2}")
    } else if value.abs() < 1000.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A figure that may be missing.
pub(crate) fn figure_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_flush_right_and_as_wide_as_their_widest_cell() {
        let mut table = Table::new("a title", &["path", "µs"]);
        table.row(["direct".to_owned(), "7".to_owned()]);
        table.row(["hop".to_owned(), "12345".to_owned()]);
        let expected =
            "a title\n    path     µs\n  ------  -----\n  direct      7\n     hop  12345\n\n";
        assert_eq!(table.text(), expected);
    }

    #[test]
    fn figures_lose_digits_as_they_grow() {
        let cases = [
            (0.567, "0.57"),
            (62.14, "62.1"),
            (41_234.5, "41234"),
            (f64::NAN, "-"),
            (-3.0, "-3.00"),
        ];
        for (value, text) in cases {
            assert_eq!(figure(value), text);
        }
    }
}

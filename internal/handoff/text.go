package handoff

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"assay/internal/text"
	"assay/internal/unit"
)

// Text writes the comparison for a reader: figures with what explains them, then what is not the same. width is that of
// the terminal, columns.
func (c *Comparison) Text(w io.Writer, width int) error {
	var b strings.Builder
	wrap := func(s, first, next string) { b.WriteString(text.Wrapped(text.Line(s), first, next, width)) }
	if len(c.Changes) > 0 {
		fmt.Fprintf(&b, "%-22s %10s %10s  %s\n", "", "here", "there", "change")
		for _, x := range c.Changes {
			fmt.Fprintf(&b, "%-22s %10s %10s  %s\n", x.Name, unit.Format(x.Here, x.Unit), unit.Format(x.There, x.Unit),
				x.words())
			if x.Noise {
				continue
			}
			for i, cause := range x.Causes {
				if i == mostCauses {
					fmt.Fprintf(&b, "    and %d more\n", len(x.Causes)-i)
					break
				}
				wrap(fmt.Sprintf("%s: %s; %s (%s)", cause.Factor, cause.Text, cause.Size, cause.Ground), "    ",
					"      ")
			}
			if x.Answer == Open {
				wrap("nothing that is known of the two accounts for it", "    ", "      ")
			}
		}
	}
	part := ""
	for _, d := range c.Differences {
		head := map[Class]string{Amiss: "Not as it should be", Meant: "Another machine",
			Noted: "Other differences"}[d.Class]
		if head != part {
			fmt.Fprintf(&b, "\n%s\n", head)
			part = head
		}
		wrap(d.Factor+": "+d.Text, "  ", "      ")
		if d.Hint != "" {
			wrap(d.Hint, "      ", "      ")
		}
	}
	if len(c.Differences) == 0 {
		b.WriteString("\nnothing else is known to differ between the two\n")
	}
	if len(c.Limits) > 0 {
		b.WriteString("\nNot compared\n")
	}
	for _, l := range c.Limits {
		wrap(l, "  ", "      ")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// mostCauses is how many causes of a change are shown.
const mostCauses = 4

// words say a change with its interval, `~` where it may be noise.
func (c *Change) words() string {
	ratio := fmt.Sprintf("× %.3g (%.3g to %.3g, %d against %d runs)", c.Ratio, c.Low, c.High, c.N[0], c.N[1])
	switch {
	case c.on == onLoss && c.Noise:
		return "~ " + c.Over
	case c.on == onLoss:
		return fmt.Sprintf("× %.4g, %s; %s", c.Ratio, c.Over, cmp.Or(c.Answer, Open))
	case c.Noise:
		return "~ " + ratio
	}
	return ratio + ": " + cmp.Or(c.Answer, Open)
}

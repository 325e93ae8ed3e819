package ci

import (
	"encoding/xml"
	"fmt"
	"io"
)

// JUnit is a file of JUnit's results, in the form that pytest and Jenkins share. What XML cannot hold in a text becomes
// U+FFFD (encoding/xml).
type JUnit struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []JUnitSuite `xml:"testsuite"`
}

// JUnitSuite is one suite; Write counts its cases.
type JUnitSuite struct {
	XMLName    xml.Name         `xml:"testsuite"`
	Name       string           `xml:"name,attr"`
	Tests      int              `xml:"tests,attr"`
	Failures   int              `xml:"failures,attr"`
	Errors     int              `xml:"errors,attr"`
	Skipped    int              `xml:"skipped,attr"`
	Time       string           `xml:"time,attr,omitempty"` // seconds: JUnitTime
	Properties *JUnitProperties `xml:"properties,omitempty"`
	Cases      []JUnitCase      `xml:"testcase"`
}

// JUnitProperties are names and values of a suite.
type JUnitProperties struct {
	List []JUnitProperty `xml:"property"`
}

// JUnitProperty is one of them.
type JUnitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// JUnitCase is a test; one of Failure, Error and Skipped at most is set, none where it passed.
type JUnitCase struct {
	Name    string      `xml:"name,attr"`
	Class   string      `xml:"classname,attr"`
	File    string      `xml:"file,attr,omitempty"`
	Line    int         `xml:"line,attr,omitempty"`
	Time    string      `xml:"time,attr,omitempty"`
	Failure *JUnitCause `xml:"failure,omitempty"`
	Error   *JUnitCause `xml:"error,omitempty"`
	Skipped *JUnitCause `xml:"skipped,omitempty"`
	Out     string      `xml:"system-out,omitempty"`
}

// JUnitCause is why a test did not pass.
type JUnitCause struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// JUnitTime is a time in seconds as the schema has it: three decimals at most.
func JUnitTime(seconds float64) string { return fmt.Sprintf("%.3f", max(0, seconds)) }

// Write counts the cases of each suite and writes the file.
func (j JUnit) Write(w io.Writer) error {
	for i := range j.Suites {
		s := &j.Suites[i]
		s.Tests, s.Failures, s.Errors, s.Skipped = len(s.Cases), 0, 0, 0
		for _, c := range s.Cases {
			switch {
			case c.Failure != nil:
				s.Failures++
			case c.Error != nil:
				s.Errors++
			case c.Skipped != nil:
				s.Skipped++
			}
		}
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(j); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

package bundle

import (
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a unit. launchd ends a job 20 s after it asked it to end (launchd.plist(5), ExitTimeOut), systemd 90 s: a
// checkpoint may take longer. Data loaders run out of launchd's 256 descriptors; 10240 is macOS's OPEN_MAX.
const (
	unitStop  = 300   // seconds
	unitFiles = 10240 // descriptors
)

// Unit is a job for launchd or systemd, every path filled in, or with Root for templates.
type Unit struct {
	Name      string            // letters, digits, "." and "-"
	Words     []string          // the first one absolute
	Dir       string            // working folder
	Variables map[string]string // exactly those are set
	Logs      string            // folder that is there, for stdout.log and stderr.log
	Needed    []string          // variables that are left to the reader: secrets
	User      string            // launchd: a daemon of that user's, before anybody has logged in; "": an agent
	Keep      bool              // start it again where it fails
}

func (c Command) unit(name, root string) Unit {
	u := Unit{Name: name, Dir: Fill(c.Dir, root), Logs: Fill(Root+"/"+LogPlace, root), Variables: map[string]string{},
		Needed: c.Needed}
	for _, w := range c.Words {
		u.Words = append(u.Words, Fill(w, root))
	}
	for n, v := range c.Variables {
		u.Variables[n] = Fill(v, root)
	}
	return u
}

// Unit gives the unit of the bundle's command, less the variables that no unit sets. root is what stands for Root: a
// folder, or Root itself. name is the job's label; "": after the run.
func (m *Manifest) Unit(name, root string) Unit {
	if name == "" {
		name = strings.Trim(unsafe.ReplaceAllString(m.Run.ID, "-"), "-.")
		if name == "" {
			name = m.Run.Document[:min(12, len(m.Run.Document))]
		}
		name = "assay." + name
	}
	u := m.Command.unit(name, root)
	u.Needed = slices.DeleteFunc(slices.Clone(u.Needed), func(n string) bool { return !variableName.MatchString(n) })
	for name, value := range u.Variables {
		if Settable(name, value) != "" {
			delete(u.Variables, name)
		}
	}
	return u
}

var label = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)

// variableName is a name that systemd and launchd set (systemd: env_name_is_valid).
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Settable says why no unit can set the variable to the value; "": it can. Both ways of writing one down lack the same:
// XML 1.0 has no control characters but tab and line ends, systemd refuses those too but tab and line feed, and neither
// has bytes that are no UTF-8.
func Settable(name, value string) string {
	switch {
	case !variableName.MatchString(name):
		return "units set no variable of that name"
	case !utf8.ValidString(value):
		return "its value is no UTF-8, and units have no other"
	}
	for _, r := range value {
		if r < 0x20 && r != '\t' && r != '\n' || r == 0x7f || r == 0xfffe || r == 0xffff {
			return fmt.Sprintf("its value holds the control character %U, which no unit can", r)
		}
	}
	return ""
}

// bad says why the unit cannot be written down.
func (u Unit) bad() error {
	if len(u.Words) == 0 {
		return errors.New("there is no command")
	}
	if !label.MatchString(u.Name) {
		return fmt.Errorf("the label %q: letters, digits, dots and dashes", u.Name)
	}
	for _, name := range u.Needed {
		if !variableName.MatchString(name) {
			return fmt.Errorf("the variable %q: units set none of that name", name)
		}
	}
	for i, w := range u.Words {
		if why := Settable("_", w); why != "" {
			return fmt.Errorf("word %d of the command: %s", i+1, why)
		}
	}
	for name, value := range u.Variables {
		if why := Settable(name, value); why != "" {
			return fmt.Errorf("the variable %q: %s", name, why)
		}
	}
	for _, p := range []string{u.Dir, u.Logs} {
		if Settable("_", p) != "" || strings.ContainsAny(p, "\n\t") || strings.HasSuffix(p, " ") ||
			strings.HasSuffix(p, `\`) || !utf8.ValidString(p) {
			return fmt.Errorf("the folder %q cannot be written into a unit", p)
		}
	}
	return nil
}

// Launchd gives the property list: an agent for user/UID, which runs with nobody at the screen, or a daemon.
func (u Unit) Launchd() ([]byte, error) {
	if err := u.bad(); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(xml.Header + `<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" ` +
		`"http://www.apple.com/DTDs/PropertyList-1.0.dtd">` + "\n")
	if len(u.Needed) > 0 {
		fmt.Fprintf(&b, "<!-- Needed, and not in here, for they hold secrets: %s -->\n",
			strings.Join(u.Needed, ", "))
	}
	b.WriteString("<plist version=\"1.0\">\n<dict>\n")
	text := func(s string) string {
		var e strings.Builder
		_ = xml.EscapeText(&e, []byte(s)) // into memory
		return "<string>" + e.String() + "</string>"
	}
	key := func(name, value string) { fmt.Fprintf(&b, "\t<key>%s</key>\n\t%s\n", name, value) }
	key("Label", text(u.Name))
	key("ProgramArguments", "<array>")
	for _, w := range u.Words {
		b.WriteString("\t\t" + text(w) + "\n")
	}
	b.WriteString("\t</array>\n")
	key("WorkingDirectory", text(u.Dir))
	key("EnvironmentVariables", "<dict>")
	for _, name := range slices.Sorted(maps.Keys(u.Variables)) {
		fmt.Fprintf(&b, "\t\t<key>%s</key>\n\t\t%s\n", name, text(u.Variables[name]))
	}
	b.WriteString("\t</dict>\n")
	key("StandardOutPath", text(u.Logs+"/stdout.log"))
	key("StandardErrorPath", text(u.Logs+"/stderr.log"))
	key("RunAtLoad", "<true/>")
	if u.Keep {
		key("KeepAlive", "<dict>\n\t\t<key>SuccessfulExit</key>\n\t\t<false/>\n\t</dict>")
		key("ThrottleInterval", "<integer>60</integer>")
	}
	key("ProcessType", text("Interactive")) // no throttling; Background would confine it to efficiency cores
	key("ExitTimeOut", fmt.Sprintf("<integer>%d</integer>", unitStop))
	key("SoftResourceLimits", fmt.Sprintf("<dict>\n\t\t<key>NumberOfFiles</key>\n\t\t<integer>%d</integer>\n\t</dict>",
		unitFiles))
	if u.User != "" {
		key("UserName", text(u.User))
	} else {
		key("LimitLoadToSessionType", text("Background"))
	}
	b.WriteString("</dict>\n</plist>\n")
	return []byte(b.String()), nil
}

// Systemd gives the unit, for a user's own manager (systemctl --user).
func (u Unit) Systemd() ([]byte, error) {
	if err := u.bad(); err != nil {
		return nil, err
	}
	var b strings.Builder
	if len(u.Needed) > 0 {
		fmt.Fprintf(&b, "# Needed, and not in here, for they hold secrets: %s\n", strings.Join(u.Needed, ", "))
	}
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("[Unit]\nDescription=%s\n\n[Service]\nType=exec", percent(u.Name))
	line("WorkingDirectory=%s", percent(u.Dir))
	for _, name := range slices.Sorted(maps.Keys(u.Variables)) {
		line("Environment=%s", quoted(name+"="+u.Variables[name]))
	}
	words := make([]string, len(u.Words))
	for i, w := range u.Words {
		words[i] = quoted(strings.ReplaceAll(w, "$", "$$"))
	}
	line("ExecStart=%s", strings.Join(words, " "))
	line("StandardOutput=append:%s", percent(u.Logs+"/stdout.log"))
	line("StandardError=append:%s", percent(u.Logs+"/stderr.log"))
	line("LimitNOFILE=%d\nTimeoutStopSec=%d", unitFiles, unitStop)
	if u.Keep {
		line("Restart=on-failure\nRestartSec=60")
	}
	line("\n[Install]\nWantedBy=default.target")
	return []byte(b.String()), nil
}

// percent doubles what systemd takes for a specifier (systemd.unit(5), Specifiers).
func percent(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// quoted writes a word as systemd reads it (systemd.syntax(7), Quoting): in double quotes, with escapes as in C.
func quoted(s string) string {
	return `"` + percent(strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s)) + `"`
}

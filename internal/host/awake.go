package host

import (
	"context"
	"fmt"
	"strings"

	"assay/internal/evidence"
)

// Awake says what decides whether a machine that nobody sits at goes on: when it sleeps by itself (sleep), what holds it
// awake while a command runs (sleep.inhibitor), whether it comes back after a power cut (restart.power-loss) and whether
// its disk waits for somebody's password then (disk.encryption). Nothing is changed, and nothing asks for root.
func Awake(ctx context.Context) []evidence.Fact {
	ctx, cancel := context.WithTimeout(ctx, 4*toolLimit)
	defer cancel()
	return awakeNow(ctx)
}

// macAwake reads it of a Mac.
func macAwake(ctx context.Context, tool toolFunc, exists func(string) bool) []evidence.Fact {
	const source = pmsetPath + " -g"
	pmset, err := tool(ctx, pmsetPath, "-g")
	var facts []evidence.Fact
	if err == nil {
		var sleep string
		sleep, err = parseSleep(pmset)
		facts = append(facts, factOr("sleep", sleep, source, err))
	} else {
		facts = append(facts, noFact("sleep", source, reason(err)))
	}
	const caffeinate = "/usr/bin/caffeinate"
	if exists(caffeinate) {
		facts = append(facts, fact("sleep.inhibitor", caffeinate, caffeinate))
	} else {
		facts = append(facts, noFact("sleep.inhibitor", caffeinate, "not on this system"))
	}
	restart := noFact("restart.power-loss", source, "pmset does not say: autorestart is for desktops")
	if custom, err := tool(ctx, pmsetPath, "-g", "custom"); err == nil {
		if v, ok := parsePmset(custom)["AC Power"]["autorestart"]; ok {
			restart = fact("restart.power-loss", map[bool]string{true: "on", false: "off"}[v == "1"],
				pmsetPath+" -g custom")
		}
	}
	facts = append(facts, restart)
	const fdesetup = "/usr/bin/fdesetup"
	out, err := tool(ctx, fdesetup, "status")
	var vault string
	if err == nil {
		vault, err = parseFileVault(out)
	}
	return append(facts, factOr("disk.encryption", vault, fdesetup+" status", err))
}

// parseSleep reads when a Mac sleeps by itself from pmset -g: "never", or "after 10 min". Who prevents it at the moment
// stands in brackets, and is no promise: it is told with it.
func parseSleep(text []byte) (string, error) {
	disabled, value := false, ""
	section := ""
	lines(text, func(line string) {
		if line != "" && line[0] != ' ' && line[0] != '\t' {
			section = strings.TrimSuffix(strings.TrimSpace(line), ":")
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "SleepDisabled":
			disabled = words[1] == "1"
		case section == "Currently in use" && len(words) >= 2 && words[0] == "sleep":
			value = words[1]
		}
	})
	switch {
	case disabled:
		return "never (SleepDisabled)", nil
	case value == "":
		return "", keyMissing("pmset -g", "sleep")
	case value == "0":
		return "never", nil
	}
	if atoi([]byte(value)) <= 0 {
		return "", fmt.Errorf("pmset -g: sleep %s is no number of minutes", cut(value, 20))
	}
	return "after " + value + " min", nil
}

// parseFileVault reads fdesetup status: `FileVault is On.`
func parseFileVault(text []byte) (string, error) {
	first, _, _ := strings.Cut(string(text), "\n")
	switch {
	case strings.HasPrefix(first, "FileVault is On"):
		return "FileVault on", nil
	case strings.HasPrefix(first, "FileVault is Off"):
		return "FileVault off", nil
	}
	return "", fmt.Errorf("fdesetup: %q says neither on nor off", cut(first, 60))
}

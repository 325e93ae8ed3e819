package secret

import (
	"path"
	"regexp"
	"strings"
)

// assignment is a word that names its value: --api-key=…, HF_TOKEN=…, +trainer.wandb.api_key=….
var assignment = regexp.MustCompile(`^(?:-{1,2}|\+{1,2}|~)?([A-Za-z_][\w.\-/@:]*)=`)

// shortPassword are programs whose -p (of redis-cli: -a) takes a password in the next word. Behind docker it does so
// for login alone.
var shortPassword = regexp.MustCompile(`^(sshpass|mongo\w*|twine|az|redis-cli|valkey-cli)$`)

// gluedPassword are programs that take it glued to -p; behind a bare -p stands the database.
var gluedPassword = regexp.MustCompile(`^(mysql\w*|mariadb[\w-]*)$`)

// shells are programs whose -c is a program of its own in one word.
var shells = regexp.MustCompile(`^(ba|z|da|k|fi|a)?sh$`)

// redactWords gives the command line without its secrets, and adds them to learnt where that is not nil.
func (set *Set) redactWords(argv []string, learnt *[]string) []string {
	out := make([]string, len(argv))
	learn := func(v string) {
		if learnt != nil {
			*learnt = append(*learnt, v)
		}
	}
	password, named, glued := "", false, false // the short flag of a password; a user's name is given
	for i, w := range argv {
		glued = glued || gluedPassword.MatchString(path.Base(w))
		if i > 0 && w == "login" && (path.Base(argv[i-1]) == "docker" || path.Base(argv[i-1]) == "podman") {
			password = "-p"
		}
		if shortPassword.MatchString(path.Base(w)) {
			password = "-p"
			if strings.HasSuffix(path.Base(w), "-cli") {
				password = "-a"
			}
		}
		switch w {
		case "--user", "--username", "--login", "-U":
			named = true
		case "-u":
			named = named || i > 0 && !strings.Contains(path.Base(argv[0]), "python") && i+1 < len(argv) &&
				!strings.HasPrefix(argv[i+1], "-")
		}
	}
	next, user, source := silent, false, false // what the word before said of this one
	for i, w := range argv {
		t, isUser, isSource := next, user, source
		next, user, source = silent, false, false
		name, isFlag := strings.CutPrefix(w, "-")
		name = strings.TrimPrefix(name, "-")
		switch {
		case isSource:
			// a program: read as any text
		case t != silent && isSecret(w, t) && (!isFlag || looksSecret(w)):
			learn(w)
			find(w, learnt)
			out[i] = Mark
			continue
		case i > 1 && argv[i-1] == "login" && path.Base(argv[i-2]) == "wandb" && looksSecret(w):
			learn(w)
			out[i] = Mark
			continue
		case t != silent && w == Mark, strings.HasPrefix(w, "-p"+Mark):
			out[i] = w
			continue
		case isUser && passwordOf(w) > 0:
			at := passwordOf(w)
			learn(w[at:])
			out[i] = w[:at] + Mark
			continue
		case glued && strings.HasPrefix(w, "-p") && len(w) > 2 && notSwitch(w[2:]):
			learn(w[2:])
			out[i] = "-p" + Mark
			continue
		}
		if strings.HasSuffix(w, "="+Mark) && assignment.MatchString(w) {
			out[i] = w
			continue
		}
		if m := assignment.FindStringSubmatchIndex(w); m != nil && !isSource {
			key, value := w[m[2]:m[3]], w[m[1]:]
			t := tells(key)
			if upper(key) && !strings.HasPrefix(w, "-") {
				t = tellsVariable(key)
			}
			if isSecret(value, t) {
				learn(value)
				find(w, learnt) // a line for a shell may begin with an assignment
				out[i] = w[:m[1]] + Mark
				continue
			}
			if userFlags[key] && passwordOf(value) > 0 {
				at := m[1] + passwordOf(value)
				learn(w[at:])
				out[i] = w[:at] + Mark
				continue
			}
		} else if isFlag && !strings.Contains(w, " ") {
			switch {
			case w == password || w == "-p" && !glued && (named || i+1 < len(argv) && looksSecret(argv[i+1])):
				next = surely
			case userFlags[name]:
				user = true
				next = silent
				if name == "auth" {
					next = surely
				}
			case w == "-c" || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.HasSuffix(w, "c") &&
				i > 0 && shells.MatchString(path.Base(argv[i-1])):
				source = true
			case name == "k":
				next = maybe
			case len(name) > 1:
				next = tells(name)
			}
		}
		spans := find(w, learnt)
		spans = append(spans, bareUserinfo(w, learnt)...)
		out[i] = apply(w, set.known(w, spans))
	}
	return out
}

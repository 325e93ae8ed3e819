package secret

import (
	"path"
	"slices"
	"sort"
	"strings"
)

// Sure gives the places in a source file, in bytes from its start and in their order, at which a secret itself stands:
// a key in the shape of a vendor's, a private key, an address with a password, a value of the set, or behind a telling
// name a text in quotes that looks like a key. Source is full of password=password and token=None: a name alone is not
// enough here, as it is for a record that is kept.
func (set *Set) Sure(s string) []int {
	var at []int
	look := func(sh *shape, s string, start int) {
		for _, m := range sh.find.FindAllStringSubmatchIndex(s, -1) {
			from, to := m[0], m[1]
			if len(m) > 2 && m[2] >= 0 {
				from, to = m[2], m[3]
			}
			if (sh.accept == nil || sh.accept(s[from:to])) && (to-from >= 12 || looksSecret(s[from:to])) &&
				!isReference(s[from:to]) && !strings.HasPrefix(s[from:], Mark) {
				at = append(at, start+from)
			}
		}
	}
	for i := range shapes {
		if sh := &shapes[i]; sh.sign == blockSign && strings.Contains(s, sh.sign) {
			look(sh, s, 0)
		}
	}
	start := 0
	for line := range strings.Lines(s) {
		likely := longestStretch(line) >= leastStretch
		for i := range shapes {
			sh := &shapes[i]
			if (likely || len(sh.sign) > 2) && sh.sign != blockSign && len(line) >= max(12, sh.least) &&
				strings.Contains(line, sh.sign) {
				look(sh, line, start)
			}
		}
		start += len(line)
	}
	add := func(from, to int) {
		if to > from && looksSecret(s[from:to]) {
			at = append(at, from)
		}
	}
	findURLs(s, add)
	findNamed(s, func(from, to int) {
		if from > 0 && isQuote(s[from-1]) {
			add(from, to)
		}
	})
	for _, sp := range set.known(s, nil) {
		at = append(at, sp.from)
	}
	sort.Ints(at)
	return slices.Compact(at)
}

// blockSign is the sign of the one shape that goes over several lines.
const blockSign = "PRIVATE KEY"

// leastStretch is how long a stretch of the characters of keys is in a line that is looked at for shapes whose sign is
// a letter or two, which stand in every line; the shapes are slow to match.
const leastStretch = 12

// longestStretch is the longest stretch of a line that a key could be: characters of base 64, a digit among them.
func longestStretch(line string) int {
	longest, run, digit := 0, 0, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		if isLetter(c) || isDigit(c) || c == '_' || c == '-' || c == '+' || c == '/' || c == '=' {
			run++
			if digit = digit || isDigit(c); digit {
				longest = max(longest, run)
			}
			continue
		}
		run, digit = 0, false
	}
	return longest
}

// secretNames are files that are nothing but credentials, by the tools that keep them so.
var secretNames = set(`.env .envrc .netrc _netrc .pypirc .git-credentials .pgpass .my.cnf .htpasswd .dockercfg .boto .s3cfg .rclone.conf rclone.conf
	id_rsa id_dsa id_ecdsa id_ecdsa_sk id_ed25519 id_ed25519_sk credentials credentials.json credentials.toml application_default_credentials.json kaggle.json
	client_secret.json client_secrets.json service_account.json service-account.json serviceaccount.json secrets.json secrets.yaml secrets.yml secrets.toml
	secrets.env .vault-token .terraformrc`)

// secretEnds are endings of files that hold private keys and passwords in a form that cannot be looked through.
var secretEnds = []string{".p12", ".pfx", ".jks", ".keystore", ".ppk", ".kdbx", ".keychain", ".keychain-db"}

// secretPaths are files with a harmless name in a telling folder.
var secretPaths = []string{".aws/config", ".docker/config.json", ".kube/config", ".config/gcloud/access_tokens.db",
	".huggingface/token", "huggingface/token", ".cache/huggingface/token", ".databrickscfg", ".ssh/config"}

// File says that by its name a file holds credentials. name is a path with slashes; .env.example and its like hold
// none.
func File(name string) bool {
	name = strings.ToLower(name)
	base := path.Base(name)
	for _, end := range []string{".example", ".sample", ".template", ".dist", ".tmpl", ".schema"} {
		if strings.HasSuffix(base, end) {
			return false
		}
	}
	if secretNames[base] || strings.HasPrefix(base, ".env.") || strings.HasSuffix(base, ".env") {
		return true
	}
	for _, end := range secretEnds {
		if strings.HasSuffix(base, end) {
			return true
		}
	}
	for _, p := range secretPaths {
		if name == p || strings.HasSuffix(name, "/"+p) {
			return true
		}
	}
	return false
}

package secret

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// tell is what a name says of the value behind it.
type tell uint8

const (
	silent tell = iota // nothing
	maybe              // a secret where the value looks like one: --key, token:
	surely             // a secret, unless the value is a switch, a path or a reference
)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

var (
	// telling are words that say by themselves what stands behind them.
	telling = set(`password passwd passphrase passcode pw pwd secret secrets credential credentials creds apikey accesskey secretkey privatekey authkey
		authtoken accesstoken apitoken token bearer jwt cookie cookies webhook authorization userpwd dbpass dbpassword userpass sshpass auth sas`)
	// hinting are words that often say something else; a variable of the environment that ends in one is taken to be a
	// secret.
	hinting = set("key keys pass pat session sessionid private signature sig dsn tokens credstore")
	// anywhere are words that tell wherever they stand in a name.
	anywhere = set("password passwd passphrase secret apikey secretkey privatekey accesstoken authtoken credential credentials")
	// ofKey are the words before "key" or "keys" that make a secret of it.
	ofKey = set(`api access secret private account signing encryption master auth service storage subscription client consumer app application deploy ssh
		rsa hmac shared admin license wandb openai anthropic hf huggingface comet neptune mlflow aws azure gcp google github gitlab replicate cohere mistral
		groq pinecone langchain langsmith clearml kaggle ngc nvidia roboflow labelbox sendgrid stripe mailgun datadog dd honeycomb sentry`)
	// ofTokens are the words before "tokens" that make a secret of it: the plural is mostly a language model's.
	ofTokens = set("api access auth refresh bearer secret")
	// ofModel are the words before "token" that make it a language model's.
	ofModel = set(`eos bos pad unk mask sep cls special image video audio start end stop max min num n per new prompt next decoder encoder forced begin
		first last target source media boi eoi eot think context cross sot ctc word sub char byte blank placeholder extra label class`)
	// ofPass are the words before "pass" that make a password of it.
	ofPass = set("db database user smtp mail email ftp http proxy redis mysql postgres pg sql ssh vnc root admin login key cert ssl tls mlflow auth basic")
	// harmless are last words that say that the value is about a secret and is none.
	harmless = set(`file files filename path paths dir folder size len length count num number max min limit type name names id ids url uri host port
		ttl expiry expires expiration timeout age parallelism enabled enable disabled disable required pattern regex format policy mode env var field column
		col index idx dropout pos position embedding embeddings emb dim vocab sock socket bus address desktop manager provider method scheme prefix suffix
		version algorithm algo alg loss weight weights ratio rate level strategy merging merge helper backend store class cls fn func module hash
		budget window stride padding mask freq interval retries attempts rotation scope scopes sort order by map mapping issuer audience log logs`)
	// tails are last words that leave the meaning to the words before them.
	tails = set("value string str text raw base64 b64 json hex prod production dev staging test old new current main default primary secondary backup data")
	// plainKeys are the words before "key" that make it one of a table.
	plainKeys = set("cache sort primary foreign hot group label image text input output target data dataset column state dict batch public metric query value index hash partition")
)

// words splits a name where it is written as several: at _ - . : and where a capital begins.
func splitName(name string) []string {
	var all []string
	from := 0
	flush := func(to int) {
		if to > from {
			all = append(all, strings.ToLower(name[from:to]))
		}
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case !isLetter(c) && !isDigit(c):
			flush(i)
			from = i + 1
		case i > from && c >= 'A' && c <= 'Z' && (name[i-1] >= 'a' && name[i-1] <= 'z' || isDigit(name[i-1]) ||
			i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z'):
			flush(i)
			from = i
		}
	}
	flush(len(name))
	return all
}

// tells says what the name of a flag, a field or a parameter tells.
func tells(name string) tell {
	t, _ := weigh(name)
	return t
}

// tellsVariable does so for a variable of the environment: what only hints elsewhere is a secret there, at its end or
// within it.
func tellsVariable(name string) tell {
	if name == "PWD" || name == "OLDPWD" {
		return silent
	}
	t, words := weigh(name)
	if t != silent || len(words) == 0 || harmless[words[len(words)-1]] {
		if t == maybe && len(words) > 1 {
			return surely
		}
		return t
	}
	for i, w := range words {
		switch {
		case i > 0 && (ofModel[words[i-1]] || plainKeys[words[i-1]]):
		case telling[w]:
			return surely // HF_TOKEN_READ
		case hinting[w] && w != "tokens":
			return maybe // SESSION_STATE
		}
	}
	return silent
}

func weigh(name string) (tell, []string) {
	if len(name) > 96 {
		name = name[len(name)-96:]
	}
	words := splitName(name)
	end := len(words)
	for end > 1 && (tails[words[end-1]] || isDigit(words[end-1][0])) {
		end--
	}
	words = words[:end]
	if end == 0 {
		return silent, nil
	}
	if word := strings.TrimRight(words[end-1], "0123456789"); word != "" { // DB_PASSWORD2
		words[end-1] = word
	}
	last, before := words[end-1], ""
	if end > 1 {
		before = words[end-2]
	}
	for _, w := range words {
		if anywhere[w] && !harmless[last] {
			return surely, words
		}
	}
	switch {
	case harmless[last]:
		return silent, words
	case last == "token":
		if ofModel[before] {
			return silent, words
		}
		return surely, words
	case telling[last]:
		return surely, words
	case last == "key" || last == "keys":
		switch {
		case ofKey[before]:
			return surely, words
		case plainKeys[before]:
			return silent, words
		}
		return maybe, words
	case last == "tokens":
		if ofTokens[before] {
			return surely, words
		}
		return silent, words
	case last == "pass":
		if ofPass[before] {
			return surely, words
		}
		return maybe, words
	case hinting[last]:
		return maybe, words
	}
	for _, end := range []string{"password", "passwd", "passphrase", "apikey", "secretkey", "accesskey", "secret",
		"pwd"} {
		if strings.HasSuffix(last, end) {
			return surely, words
		}
	}
	if head, ok := strings.CutSuffix(last, "token"); ok && !ofModel[head] {
		return maybe, words
	}
	if strings.HasSuffix(last, "key") && len(last) > 3 && ofKey[strings.TrimSuffix(last, "key")] {
		return surely, words
	}
	return silent, words
}

// isSecret says whether a value is taken out, given what its name tells.
func isSecret(value string, t tell) bool {
	switch {
	case t == silent || value == Mark || isSwitch(value) || isReference(value) || isPath(value):
		return false
	case t == maybe:
		return looksSecret(value)
	}
	return true
}

var switches = set(`true false yes no on off none null nil auto default undefined enabled disabled always never basic digest ntlm oauth oauth2 bearer kerberos
	ldap gssapi iam token jwt str string bytes int float bool any required optional optionally prompt stdin keyring`)

// isSwitch says that a value is a choice or a number: --use-auth-token true, HF_HUB_DISABLE_IMPLICIT_TOKEN=1. A number
// of four digits may be a PIN.
func isSwitch(v string) bool {
	if v == "" || v == "-" || switches[strings.ToLower(v)] {
		return true
	}
	if strings.Trim(v, "0123456789:.") == "" && strings.Contains(v, ":") { // ports
		return true
	}
	if len(v) < 4 || len(v) < 12 && strings.ContainsAny(v, ".eE+-") {
		_, err := strconv.ParseFloat(v, 64)
		return err == nil
	}
	return false
}

var (
	reference = regexp.MustCompile(`^(\$\{?[A-Za-z_][A-Za-z0-9_]*(:?[-?+=][^}]*)?\}?|\$\(.*\)|%[A-Za-z_]+%|%\([A-Za-z_]+\)s|\{[A-Za-z_][\w.]*\}|<[^<>]*>|\[[A-Z]+\]|` +
		`\*{3,}|[xX]{4,}|\.{3,}|(env|file|keyring|vault|op|arn):[^@]*|@/?[\w./-]+\.\w+)$`)
	chain = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$|^[A-Za-z_][\w.]*[(\[]`)
	paths = regexp.MustCompile(`^(~?|\.{1,2}|[A-Za-z]:)[/\\][\w./\\ ~+-]*$`)
	named = regexp.MustCompile(`(?i)^[\w./\\~ -]+\.(json|pem|key|txt|ya?ml|toml|env|crt|cer|p12|pfx|pub|cfg|ini|conf|py|csv)$`)
)

// isReference says that a value names where the secret is, or stands for one: $HF_TOKEN, {token}, <pad>, [MASK],
// args.api_key.
func isReference(v string) bool {
	return reference.MatchString(v) || chain.MatchString(v) && !looksSecret(v)
}

// isPath says that a value is a path: none of its parts looks like a secret.
func isPath(v string) bool {
	if !paths.MatchString(v) && !named.MatchString(v) {
		return false
	}
	parts := strings.FieldsFunc(v, func(r rune) bool { return r == '/' || r == '\\' })
	if len(v) == 40 && strings.Count(v, ".") == 0 && looksSecret(strings.ReplaceAll(v, "/", "")) {
		return false // a secret access key of AWS: 40 characters, / among them
	}
	for _, p := range parts {
		if looksSecret(p) {
			return false
		}
	}
	return true
}

// looksSecret says that a value is long, of the characters that keys are made of, and without an order that words would
// have: from sixteen characters on, letters and digits, three bits or more a character (random hexadecimal has at most
// four, random base 64 six, of which sixteen show up to four).
func looksSecret(v string) bool {
	if len(v) < 16 || len(v) > 4096 {
		return false
	}
	var count [256]int
	letters, digits, run, longest := 0, 0, 0, 0
	for i := 0; i < len(v); i++ {
		c := v[i]
		count[c]++
		switch {
		case isLetter(c):
			letters++
			run++
		case isDigit(c):
			digits++
			run++
		case strings.IndexByte("+/=_.~-!@#$%^&*:", c) >= 0:
			run = 0
		default:
			return false
		}
		longest = max(longest, run)
	}
	if letters == 0 || digits == 0 || longest < 10 {
		return false
	}
	bits := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(v))
			bits -= p * math.Log2(p)
		}
	}
	return bits >= 3
}

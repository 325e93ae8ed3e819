package secret

import (
	"regexp"
	"strings"
)

// find gives the places of secrets in a text, by shape and by the names before them. learnt, where it is not nil, takes
// their values.
func find(s string, learnt *[]string) []span {
	if len(s) < leastCarried {
		return nil
	}
	var spans []span
	add := func(from, to int) {
		if to <= from || strings.HasPrefix(s[from:], Mark) {
			return
		}
		spans = append(spans, span{from, to})
		if learnt != nil {
			*learnt = append(*learnt, s[from:to])
		}
	}
	if len(s) >= 12 {
		var holds [256]bool
		for i := 0; i < len(s); i++ {
			holds[s[i]] = true
		}
		for i := range shapes {
			sh := &shapes[i]
			if !holds[rare[i]] || len(s) < sh.least || !strings.Contains(s, sh.sign) {
				continue
			}
			for _, at := range sh.find.FindAllStringSubmatchIndex(s, -1) {
				from, to := at[0], at[1]
				if len(at) > 2 && at[2] >= 0 {
					from, to = at[2], at[3]
				}
				if sh.accept == nil || sh.accept(s[from:to]) {
					add(from, to)
				}
			}
		}
	}
	findURLs(s, add)
	findNamed(s, add)
	findFlags(s, add)
	return spans
}

// brokers are schemes whose addresses have no @ behind the host: the last one ends the password, whatever stands in it.
var brokers = regexp.MustCompile(`^(postgres|postgresql|mysql|mariadb|mongodb|redis|rediss|valkey|amqps?|mssql|sqlserver|oracle|clickhouse|clickhouses|kafka|nats|` +
	`cockroachdb|snowflake|redshift|trino|presto|sqlite|ldaps?|smtps?|imaps?|mqtts?|neo4j|bolt|cassandra|couchdb|influxdb|rabbitmq|celery|pyamqp)(\+[a-z0-9_+]+)?$`)

// findURLs finds the passwords of addresses, scheme://user:password@host, and names alone that look like a key,
// scheme://key@host.
func findURLs(s string, add func(from, to int)) {
	for base := 0; ; {
		colon := strings.IndexByte(s[base:], ':')
		if colon < 0 {
			return
		}
		colon += base
		base = colon + 1
		switch {
		case colon == 0:
			continue
		case strings.HasPrefix(s[base:], "//"):
			base += len("//")
		case strings.HasPrefix(s[base:], `\/\/`): // as JSON may write it
			base += len(`\/\/`)
		default:
			continue
		}
		start := colon
		for start > 0 && colon-start < 32 && (isLetter(s[start-1]) || isDigit(s[start-1]) ||
			strings.IndexByte("+.-_", s[start-1]) >= 0) {
			start--
		}
		scheme := strings.ToLower(s[start:colon])
		if i := strings.LastIndexByte(scheme, '.'); i >= 0 {
			scheme = scheme[i+1:]
		}
		from := base
		end := from
		for end < len(s) && end-from < 8192 && !isSpace(s[end]) && !isQuote(s[end]) && s[end] != '<' && s[end] != '>' &&
			s[end] != '|' {
			end++
		}
		segment := s[from:end]
		authority := segment
		if i := strings.IndexAny(segment, "/?#"); i >= 0 {
			authority = segment[:i]
		}
		host := strings.LastIndexByte(authority, '@')
		if brokers.MatchString(scheme) {
			rest := segment
			if i := strings.LastIndexByte(rest, '?'); i >= 0 && strings.LastIndexByte(rest[:i], '@') >= 0 {
				rest = rest[:i]
			}
			host = strings.LastIndexByte(rest, '@')
		} else if host < 0 { // a / or a # in the password: what stands between : and / is no port
			if i := strings.IndexByte(authority, ':'); i >= 0 && !strings.HasPrefix(authority, "[") &&
				strings.Trim(authority[i+1:], "0123456789") != "" {
				host = strings.LastIndexByte(segment, '@')
			}
		}
		if host < 0 {
			continue
		}
		user, password, has := strings.Cut(segment[:host], ":")
		switch {
		case has && !isReference(password):
			add(from+len(user)+1, from+host)
			if user != "" && looksSecret(user) {
				add(from, from+len(user))
			}
		case !has && (looksSecret(user) || len(user) >= 32):
			add(from, from+host)
		}
	}
}

var bare = regexp.MustCompile(`^([\w.%+-]+):([^\s/]+)@[A-Za-z0-9][\w.-]*(:\d+)?(/\S*)?$`)

// bareUserinfo finds the password in a word that is user:password@host without a scheme.
func bareUserinfo(word string, learnt *[]string) []span {
	at := bare.FindStringSubmatchIndex(word)
	if at == nil || strings.Contains(word, "@sha256:") || isReference(word[at[4]:at[5]]) || word[at[4]:at[5]] == Mark {
		return nil
	}
	if learnt != nil {
		*learnt = append(*learnt, word[at[4]:at[5]])
	}
	return []span{{at[4], at[5]}}
}

// headers hold credentials up to the end of their line.
var headers = set("authorization cookie cookies")

// findNamed finds what stands behind a telling name and = or a colon: api_key='…', "token": "…", ?sig=…, Authorization:
// ….
func findNamed(s string, add func(from, to int)) {
	for i := 0; i < len(s); i++ {
		pair := s[i] == ',' && i > 0 && isQuote(s[i-1]) && i+2 < len(s) // ('token', 'x')
		if s[i] != '=' && s[i] != ':' && !pair || i == 0 {
			continue
		}
		sep, end := i, i
		for end > 0 && (s[end-1] == ' ' || s[end-1] == ']') {
			end--
		}
		for end > 0 && (isQuote(s[end-1]) || s[end-1] == '\\') { // of a name in quotes
			end--
		}
		start := end
		for start > 0 && end-start < 96 && (isLetter(s[start-1]) || isDigit(s[start-1]) ||
			strings.IndexByte("_.-", s[start-1]) >= 0) {
			start--
		}
		for sep+1 < len(s) && (s[sep+1] == '=' || s[sep+1] == '>') {
			sep++
		}
		if pair && (start < 2 || s[start-2] != '(' || !isQuote(s[start-1])) {
			continue
		}
		compared := sep > i && s[sep] == '=' || s[i] == '=' && i > 0 && strings.IndexByte("!<>=", s[i-1]) >= 0
		i = sep
		if compared || start == end || sep+1 >= len(s) || strings.HasSuffix(s[start:end], ".py") || s[i] == ':' &&
			(strings.HasPrefix(s[sep+1:], "//") || strings.HasSuffix(s[:start], "//")) {
			continue // an address: findURLs sees it
		}
		name := s[start:end]
		t := silent
		if upper(name) && !strings.ContainsAny(name, "-.") {
			t = tellsVariable(name)
		} else {
			t = tells(name)
		}
		if t == silent {
			continue
		}
		query := start > 0 && strings.IndexByte("?&;", s[start-1]) >= 0
		if query && t == maybe && !strings.HasSuffix(strings.ToLower(name), "key") {
			t = surely // ?sig=…
		}
		last := splitName(name)
		header := headers[last[len(last)-1]]
		quoted := end < len(s) && (isQuote(s[end]) || s[end] == '\\')
		from := sep + 1
		for from < len(s) && s[from] == ' ' && from-sep < 8 {
			from++
		}
		if strings.EqualFold(name, "token") && s[i] == ':' && !quoted {
			t = maybe // "unexpected token: x"
		}
		to, inQuotes := valueEnd(s, from, header && s[sep] == ':')
		if inQuotes > 0 {
			from += inQuotes
		}
		if to <= from {
			continue
		}
		value := s[from:to]
		if header || strings.HasPrefix(value, "Bearer ") || strings.HasPrefix(value, "Basic ") {
			// Authorization: Bearer …: the scheme stays.
			if scheme, rest, ok := strings.Cut(value, " "); ok && rest != "" && letters(scheme) &&
				last[len(last)-1] != "cookie" && last[len(last)-1] != "cookies" {
				from += len(scheme) + 1
				value = rest
			}
		}
		if strings.EqualFold(value, name) || inQuotes == 0 && strings.IndexByte("{[(", value[0]) >= 0 &&
			!looksSecret(value[1:]) {
			continue // password=password: an argument handed on; auth={…}: what stands within tells by itself
		}
		if isSecret(value, t) && !strings.HasPrefix(value, Mark) && !(inQuotes == 0 && strings.Contains(value, "://")) {
			add(from, to)
			i = to - 1
		}
	}
}

func letters(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isLetter(s[i]) && s[i] != '-' {
			return false
		}
	}
	return s != ""
}

func upper(s string) bool { return s == strings.ToUpper(s) }

// valueEnd gives where the value that begins at from ends, and how many characters of an opening quote stand before it.
func valueEnd(s string, from int, line bool) (to, quote int) {
	if from >= len(s) {
		return from, 0
	}
	at := from
	if at+1 < len(s) && strings.IndexByte("bruf", s[at]|0x20) >= 0 && isQuote(s[at+1]) { // Python's b'…'
		at++
	}
	if s[at] == '\\' && at+1 < len(s) && isQuote(s[at+1]) { // \"…\" in a text in a text
		end := strings.Index(s[at+2:], s[at:at+2])
		if end < 0 {
			return len(s), at + 2 - from
		}
		return at + 2 + end, at + 2 - from
	}
	if isQuote(s[at]) {
		q := s[at]
		for to = at + 1; to < len(s) && s[to] != q; to++ {
			if s[to] == '\\' {
				to++
			}
		}
		return min(to, len(s)), at + 1 - from
	}
	for to = from; to < len(s); to++ {
		switch c := s[to]; {
		case c == '\n' || c == '\r':
			return to, 0
		case line && !isQuote(c):
			continue
		case isSpace(c) || isQuote(c) || c == '&' || c == ';' || c == '<' || c == '>' || c == '|':
			return to, 0
		case c == '\\' && to+1 < len(s) && isQuote(s[to+1]):
			return to, 0
		case (c == ',' || c == ')' || c == ']' || c == '}') && closes(s[to+1:]):
			return to, 0
		}
	}
	return to, 0
}

var nextName = regexp.MustCompile(`^[A-Za-z_][\w.-]*=`)

// closes says that what follows a comma or a bracket shows that it ends a value.
func closes(rest string) bool {
	return rest == "" || isSpace(rest[0]) || strings.IndexByte(`,;:.)]}"'`, rest[0]) >= 0 ||
		nextName.MatchString(rest[:min(len(rest), 64)])
}

// findFlags finds the values of flags in a line for a shell: --password x, -u user:x.
func findFlags(s string, add func(from, to int)) {
	for i := 0; i+2 < len(s); i++ {
		if s[i] != '-' || i > 0 && !isSpace(s[i-1]) && !isQuote(s[i-1]) && strings.IndexByte("(;|&[,", s[i-1]) < 0 {
			continue
		}
		start := i
		for start < len(s) && s[start] == '-' {
			start++
		}
		end := start
		for end < len(s) && end-start < 96 && (isLetter(s[end]) || isDigit(s[end]) ||
			strings.IndexByte("_.-", s[end]) >= 0) {
			end++
		}
		i = max(i, end-1)
		if start == end {
			continue
		}
		from := end
		for from < len(s) && (isQuote(s[from]) || s[from] == ',') && from-end < 2 {
			// '--api-key', 'x' as Python prints a list
			from++
		}
		space := from
		for from < len(s) && isSpace(s[from]) {
			from++
		}
		if from == space || from == len(s) || s[from] == '-' {
			continue
		}
		to, quote := valueEnd(s, from, false)
		from += quote
		if to <= from {
			continue
		}
		name, value := s[start:end], s[from:to]
		if userFlags[name] {
			if at := passwordOf(value); at > 0 {
				add(from+at, to)
			}
			continue
		}
		if len(name) > 1 && isSecret(value, tells(name)) && !strings.HasPrefix(value, Mark) {
			add(from, to)
		}
	}
}

// userFlags take user:password in one word, as curl's -u does.
var userFlags = set("u U user username proxy-user userpwd creds login auth basic-auth http-auth")

// passwordOf says where in user:password the password begins; 0 where it is none, as in the numbers of 1000:1000 or in
// an address.
func passwordOf(value string) int {
	user, password, ok := strings.Cut(value, ":")
	if !ok || password == "" || password == Mark || strings.HasPrefix(password, "//") ||
		strings.Trim(password, "0123456789") == "" && len(password) < 6 ||
		strings.ContainsAny(user, "/ ") || isReference(password) {
		return 0
	}
	return len(user) + 1
}

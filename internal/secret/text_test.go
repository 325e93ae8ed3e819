package secret

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestTexts: what goes from a text and what stays, each beside its neighbour. "-": the text stays as it is.
func TestTexts(t *testing.T) {
	const key = "k3yabcdefghij0123456"
	for _, c := range [][2]string{
		// addresses
		{"https://u:pw9@h/x", "https://u:(redacted)@h/x"}, {`https:\/\/u:pw9@h`, `https:\/\/u:(redacted)@h`},
		{"a://u:pw9@h", "a://u:(redacted)@h"}, {"://u:pw9@h", "-"}, {"//u:pw9@h/x", "-"}, {"x//u:pw9@h/x", "-"},
		{"https://h/a b:c@d", "-"}, {"https://u:pw9 @h", "-"}, {"https://u:$PW@h", "-"}, {"https://h:80/a@b", "-"},
		{"https://u:p/w9@h", "https://u:(redacted)@h"}, {"https://[::1]:80/a@b", "-"},
		{"https://h:80a/b@c", "https://h:(redacted)@c"},
		{"redis://h:6379/0?a=b", "-"}, {"redis://u:p?w@h/0?a=b@c", "redis://u:(redacted)@h/0?a=b@c"},
		{"x.redis://u:p/w@h@i", "x.redis://u:(redacted)@i"}, {"https://u:pw9@h/a@b", "https://u:(redacted)@h/a@b"},
		{"redis://u:pw9@h/a@b", "redis://u:(redacted)@b"}, {"https://u:pw9@h>x@y", "https://u:(redacted)@h>x@y"},
		{"https://u:pw9@h|x@y", "https://u:(redacted)@h|x@y"}, {"https://u:pw9@h<x@y", "https://u:(redacted)@h<x@y"},
		{"https://u:pw9@h'x@y", "https://u:(redacted)@h'x@y"}, {"https://me@h/x", "-"},
		{"https://" + key + "@h/x", "https://(redacted)@h/x"},
		{"https://" + key + ":pw9@h/x", "https://(redacted):(redacted)@h/x"},
		{"https://:pw9@h/x", "https://:(redacted)@h/x"},
		{"https://" + strings.Repeat("a", 31) + "@h/x", "-"},
		{"https://" + strings.Repeat("a", 32) + "@h/x", "https://(redacted)@h/x"},
		{"https://a@h and https://u:pw9@h", "https://a@h and https://u:(redacted)@h"}, {"https://u:@h", "-"},
		{"https://u@h:80", "-"},
		// names
		{"token=pw9", "token=(redacted)"}, {"token==pw9", "-"}, {"token!=pw9", "-"}, {"token<=pw9", "-"},
		{"token>=pw9", "-"},
		{"token=>pw9", "token=>(redacted)"}, {"token:=pw9", "-"}, {"password = pw9", "password = (redacted)"},
		{"password: pw9", "password: (redacted)"},
		{"token: pw9", "-"}, {"'token': pw9", "'token': (redacted)"}, {"token: " + key, "token: (redacted)"},
		{"api_token: pw9", "api_token: (redacted)"},
		{"d['token'] = 'pw9'", "d['token'] = '(redacted)'"},
		{`{\"token\": \"pw 9\", 1`, `{\"token\": \"(redacted)\", 1`},
		{`{\"token\": \"pw 9`, `{\"token\": \"(redacted)`}, {"token='pw 9", "token='(redacted)"},
		{`token='a\'b' c`, `token='(redacted)' c`},
		{"token=b'pw 9' c", "token=b'(redacted)' c"}, {"token=x'pw 9' c", "token=(redacted)'pw 9' c"},
		{"token=''", "-"}, {"token= ", "-"}, {"token=", "-"},
		{"password=        pw9", "-"}, {"password=       pw9", "password=       (redacted)"},
		{"('token', 'pw9')", "('token', '(redacted)')"},
		{"['token', 'pw9']", "-"}, {"(token', 'pw9')", "-"}, {"'token', 'pw9'", "-"},
		{"token=pw9,b=1", "token=(redacted),b=1"},
		{"token=pw,9", "token=(redacted)"}, {"token=pw9, b", "token=(redacted), b"},
		{"f(token=pw9)", "f(token=(redacted))"}, {"[token=pw9]", "[token=(redacted)]"},
		{"token=p)w9 b", "token=(redacted) b"}, {"{token=pw9}", "{token=(redacted)}"},
		{"token=pw9;b", "token=(redacted);b"},
		{"token=pw9&b=1", "token=(redacted)&b=1"}, {"token=pw9|b", "token=(redacted)|b"},
		{"token=pw9<b", "token=(redacted)<b"}, {"token=pw9>b", "token=(redacted)>b"},
		{"token=pw9\rb", "token=(redacted)\rb"}, {"token=pw9\tb", "token=(redacted)\tb"},
		{`token=pw9\"b`, `token=(redacted)\"b`}, {`token=pw9\b c`, `token=(redacted) c`},
		{"token=TOKEN", "-"}, {"token={pw9", "-"}, {"token=[pw9", "-"}, {"token=(pw9", "-"},
		{"token={" + key, "token=(redacted)"}, {"token='{pw9'", "token='(redacted)'"},
		{"password=https://h/x", "-"}, {"password='https://h/x'", "password='(redacted)'"},
		{"password=(redacted) x", "-"}, {"password=$PW x", "-"},
		{"token.py:12 of it", "-"}, {"token://h/x?y", "-"}, {"http://token:8080/x", "-"},
		{"?sig=pw9", "?sig=(redacted)"}, {"sig=pw9 x", "-"},
		{"&sig=pw9&x", "&sig=(redacted)&x"}, {";sig=pw9", ";sig=(redacted)"}, {"?key=pw9", "-"},
		{"?key=" + key, "?key=(redacted)"}, {"?eos_token=pw9", "-"},
		{"HF_KEY=pw9", "HF_KEY=(redacted)"}, {"hf_thing_key=pw9", "-"}, {"A.KEY=pw9", "-"}, {"X-KEY: pw9", "-"},
		{"=token=pw9", "=token=(redacted)"}, {": pw9 abc", "-"},
		{"https://@h:ab/c@d", "-"}, {"t --" + strings.Repeat("x", 97-len("-token")) + "-token pw9", "-"},
		{"t --" + strings.Repeat("x", 96-len("-token")) + "-token pw9",
			"t --" + strings.Repeat("x", 96-len("-token")) + "-token (redacted)"},
		{", token=pw9", ", token=(redacted)"},
		// headers, up to the end of the line
		{"Cookie: a b\nc", "Cookie: (redacted)\nc"}, {"Cookie: a b; c=d", "Cookie: (redacted)"},
		{"cookie=a b", "cookie=(redacted) b"},
		{"Authorization: Digest a b\nc", "Authorization: Digest (redacted)\nc"},
		{"Authorization: pw9", "Authorization: (redacted)"},
		{"Authorization: pw9 x", "Authorization: (redacted)"},
		{"token='Bearer pw9'", "token='Bearer (redacted)'"}, {"token='Basic pw9'", "token='Basic (redacted)'"},
		{"token='Other pw9'", "token='(redacted)'"}, {"'Authorization: X pw9' b", "'Authorization: X (redacted)' b"},
		// flags
		{"t --token pw9 x", "t --token (redacted) x"}, {"t --token pw9", "t --token (redacted)"},
		{"t --token -x", "-"}, {"t --token", "-"}, {"t --token  ", "-"},
		{"a--token pw9", "-"}, {"(--token pw9)", "(--token (redacted))"},
		{"x;--token pw9", "x;--token (redacted)"}, {"'--token', 'p w'", "'--token', '(redacted)'"},
		{"t --token '' x", "-"}, {"t --token 'p w' x", "t --token '(redacted)' x"},
		{"t -u me:pw9 x", "t -u me:(redacted) x"}, {"t -u 10:10 x", "-"},
		{"t --user me x", "-"}, {"t -- token pw9", "-"}, {"t -k " + key, "-"},
		{"t --a-key " + key, "t --a-key (redacted)"}, {"t --a-key pw9", "-"}, {"t --token (redacted) x", "-"},
		{"--token pw9", "--token (redacted)"}, {"t --token '','pw9'", "-"},
		{"t --token\tpw9", "t --token\t(redacted)"},
		// shapes, and what is too short, of words alone, or a mark already
		{"sk-abcdefghijklmnopqrst", "(redacted)"}, {"sk-learn-models-and-more", "-"},
		{"sk-abcdefgh-ijkl-mnop", "-"}, {"sk-abcd1", "-"},
		{"Bearer abcdefghijk1", "Bearer (redacted)"}, {"Bearer abcdefgh", "-"},
		{"Basic bWU6cHc5OQ==", "Basic (redacted)"}, {"Basic training", "-"},
		{"hf_abcdefghijklmnop", "(redacted)"}, {"hf_abcdefghijklmno", "-"},
		{"login me password pw9", "login me password (redacted)"},
		{"login me password (redacted)", "-"}, {"mysql -ppw9 db", "mysql -p(redacted) db"},
		{"mysql -ptrue db", "-"}, {"mysql -p$PW db", "-"}, {"mysql -p(redacted) db", "-"},
		{"-----BEGIN PRIVATE KEY----- -----END", "-"},
		{"-----BEGIN PRIVATE KEY-----ab-----END", "-----BEGIN PRIVATE KEY-----(redacted)-----END"},
		{"N" + strings.Repeat("a", 22) + "." + strings.Repeat("b", 6) + "." + strings.Repeat("c", 27), "(redacted)"},
		{"AKIAIOSFODNN7EXAMPLE", "(redacted)"}, {"xAKIAIOSFODNN7EXAMPLE", "-"}, {"AKIAIOSFODNN7EXAMPLEX", "-"},
	} {
		want := c[1]
		if want == "-" {
			want = c[0]
		}
		if got := Text(c[0]); got != want {
			t.Errorf("%q became\n%q, want\n%q", c[0], got, want)
		} else if again := Text(got); again != got {
			t.Errorf("a second pass made %q of %q", again, got)
		}
	}
}

// TestLearnt: a value that was learnt goes wherever it stands, in whatever form; where it is short, it goes as a word
// of its own only.
func TestLearnt(t *testing.T) {
	for _, c := range [][3]string{
		{"pass12", "a pass12, pass123 xpass12 _pass12 épass12 \x80pass12 pass12",
			"a (redacted), pass123 xpass12 _pass12 épass12 \x80pass12 (redacted)"},
		{"pass1234567", "xpass1234567", "-"}, {"pass12345678", "xpass12345678y", "x(redacted)y"},
		{" pass12\n", "a pass12", "a (redacted)"},
		{"pas12", "a pas12 b", "-"}, {"abcdefg", "a abcdefg b", "-"},
		{"abcdefgh", "a abcdefgh b", "a (redacted) b"}, {"1234567", "a 1234567 b", "-"},
		{"12345678", "a 12345678 b", "a (redacted) b"}, {"me:pass12", "so pass12 it", "so (redacted) it"},
		{"p ss&12x", "a=p+ss%2612x b", "a=(redacted) b"},
		{"p%20ss12", "it p ss12 is", "it (redacted) is"}, {"/work/ab1c", "at /work/ab1c it", "-"},
		{`first line 1\nsecond line`, "so: first line 1", "so: (redacted)"},
		{"first line 1\nsecond line", "so: first line 1", "so: (redacted)"},
		{"first line 1\nsecond line", "so: second line", "-"},
		{"-----BEGIN IT 1\nab", "so: -----BEGIN IT 1", "-"}, {"first line 1\nab:cdefg1", "so cdefg1 it", "-"},
		{"first line 1\nsecond line", `so 'first line 1\nsecond line' it`, "so '(redacted)' it"},
	} {
		want := c[2]
		if want == "-" {
			want = c[1]
		}
		var set Set
		set.Learn(c[0])
		if got := set.Text(c[1]); got != want {
			t.Errorf("%q learnt: %q became %q, want %q", c[0], c[1], got, want)
		}
	}
	// A text that was cut off within it: behind a hundred bytes, and with eight of its own.
	for _, c := range []struct {
		before, of int
		gone       bool
	}{{93, 8, true}, {93, 7, false}, {92, 8, false}, {200, 15, true}, {200, 1, false}} {
		var set Set
		set.Learn("secretvalue 1234")
		text := strings.Repeat(".", c.before) + "secretvalue 1234"[:c.of]
		if got := set.Text(text); (got == strings.Repeat(".", c.before)+Mark) != c.gone || !c.gone && got != text {
			t.Errorf("%+v: %q", c, got)
		}
	}
	// The longest goes first, none is held twice, and there are as many as the bound says.
	var set Set
	for range 2 {
		for i := range mostValues {
			set.Learn(fmt.Sprintf("value%06d", i))
		}
	}
	longest := func(a, b string) int { return len(b) - len(a) }
	if len(set.values) != mostValues || !slices.IsSortedFunc(set.values, longest) {
		t.Errorf("%d values", len(set.values))
	}
	if set.Learn("onemore1"); len(set.values) != mostValues {
		t.Errorf("%d values", len(set.values))
	}
	if got := apply("abcdefghij", []span{{6, 8}, {1, 3}, {2, 4}, {4, 5}, {1, 2}}); got != "a(redacted)f(redacted)ij" {
		t.Error(got)
	}
	if got := apply("abcdef", []span{{0, 5}, {1, 2}, {6, 6}}); got != "(redacted)f(redacted)" {
		t.Error(got)
	}
	// An environment teaches by name, by shape, and by what stands in an address or before an @.
	var env Set
	env.Environ([]string{"A_TOKEN=tokenval1", "X=hf_abcdefghijklmnop", "Y=me:userinfo1@h", "Z=redis://u:urlvalue1@h",
		"N=plainval1", "A_TOKEN_PATH=pathvalue1", "EMPTY_TOKEN="})
	if got := env.Text("tokenval1 hf_abcdefghijklmnop userinfo1 urlvalue1 plainval1 pathvalue1"); got !=
		"(redacted) (redacted) (redacted) (redacted) plainval1 pathvalue1" {
		t.Error(got)
	}
	if got := env.Variable("N", "with tokenval1"); got != "with (redacted)" {
		t.Error(got)
	}
	// A command line teaches what stood behind a flag, a user's name, -p and in an address, and nothing else.
	var line Set
	line.Words([]string{"mysql", "-pgluedval1", "-u", "me:uservalue1", "--proxy-user=me:proxyval1", "--api-key",
		"flagvalue1",
		"--token=namevalue1", "x:barevalue1@h", "wandb", "login", "k3yabcdefghij0123456", "--name", "plainval1"})
	if got := line.Text("gluedval1 uservalue1 proxyval1 flagvalue1 namevalue1 barevalue1 k3yabcdefghij0123456 plainval1"); got !=
		strings.Repeat(Mark+" ", 7)+"plainval1" {
		t.Error(got)
	}
}

// TestDocuments: a list of texts is read as a command line, anything else text by text, and what is no JSON
// is read as far as it goes. "-": the document itself is given back.
func TestDocuments(t *testing.T) {
	for _, c := range [][2]string{
		{`["t","--token","pw9"]`, `["t","--token","(redacted)"]`}, {`{"a":[ "t" ,	"--token",` + "\n" + `"pw9" ]}`,
			`{"a":[ "t" ,	"--token",` + "\n" + `"(redacted)" ]}`},
		{`["t","--token","pw9",3]`, "-"}, {`["t","--token","pw9",["x"]]`, "-"}, {`["t","--token","pw9"`, "-"},
		{`["t","--token","pw9",`, "-"},
		{`["t","--token","pw9"}`, "-"}, {`{"t":"--token","x":"pw9"}`, "-"}, {`"t","--token","pw9"`, "-"},
		{`["t","--token" "pw9"]`, "-"},
		{`["t","--token","\x"]`, "-"}, {`["t","-p","x@y"]`, "-"},
		{`["env","HF_TOKEN=pw9"]`, `["env","HF_TOKEN=(redacted)"]`},
		{`["t","me:pw9@h"]`, `["t","me:(redacted)@h"]`}, {`["me:pw9@h",1]`, "-"},
		{`["wandb","login","k3yabcdefghij0123456"]`, `["wandb","login","(redacted)"]`},
		{`["sync","k3yabcdefghij0123456"]`, "-"},
		{`["a","--token","x\"y"]`, `["a","--token","(redacted)"]`},
		{`["a","b"],["--token","pw9"]`, `["a","b"],["--token","(redacted)"]`},
		{`{"a":"token=pw9","b":"token='\u0041'"}`, `{"a":"token=(redacted)","b":"token='(redacted)'"}`},
		{`{"token=pw9":1}`, `{"token=(redacted)":1}`},
		{`{"a":"x\\","b":"token=pw9"}`, `{"a":"x\\","b":"token=(redacted)"}`},
		{`{"a":"token=x\q9"}`, `{"a":"token=(redacted)"}`}, {`"token=pw9`, `"token=(redacted)"`},
		{`{"n":123456,"s":"abcdefgh"}`, "-"},
		{`"`, "-"}, {`["`, "-"}, {`[`, "-"}, {`["-"`, "-"}, {`["-",`, "-"}, {`["-", `, "-"}, {`["-" `, "-"},
		{`{"a":"\`, "-"},
	} {
		doc := []byte(c[0])
		got := JSON(doc)
		if c[1] == "-" {
			if !bytes.Equal(got, doc) || &got[0] != &doc[0] {
				t.Errorf("%s became %s", c[0], got)
			}
		} else if string(got) != c[1] {
			t.Errorf("%s became\n%s, want\n%s", c[0], got, c[1])
		}
	}
	if JSON(nil) != nil {
		t.Error("nothing became something")
	}
}

// TestValue: a value that somebody names goes in every form, however short; base 64 of a short one does not, since
// that would stand elsewhere by chance.
func TestValue(t *testing.T) {
	for _, c := range [][3]string{
		{"ab", "cab b ab", "c(redacted) b (redacted)"},
		{"a b&", "a+b%26 a%20b& a b&amp;", "(redacted) (redacted) (redacted)"},
		{" ab ", "xab", "x(redacted)"}, {"a\nb", `a\nb`, "(redacted)"}, {"a\nb", "a\nb", "(redacted)"},
		{`a"b`, `a\"b a&#34;b`, "(redacted) (redacted)"},
		{"secret", "c2VjcmV0 x", "(redacted) x"},
		{"sécrets", "c8OpY3JldHM= c8OpY3JldHM", "(redacted) (redacted)"}, {"secre", "c2VjcmU=", "-"},
		{"", "as it was", "-"}, {"x", "as it was", "-"},
	} {
		want := c[2]
		if want == "-" {
			want = c[1]
		}
		v := NewValue(c[0])
		if got := v.Text(c[1]); got != want {
			t.Errorf("%q: %q became %q, want %q", c[0], c[1], got, want)
		}
		if v.In(c[1]) != (c[2] != "-") {
			t.Errorf("%q in %q: %v", c[0], c[1], v.In(c[1]))
		}
	}
	v := NewValue("a")
	for doc, want := range map[string]string{`{"a":["b","xa"],"n":1}`: `{"(redacted)":["b","x(redacted)"],"n":1}`,
		`["","b"]`: `["","b"]`} {
		if got := string(v.JSON([]byte(doc))); got != want {
			t.Errorf("%s became %s, want %s", doc, got, want)
		}
	}
}

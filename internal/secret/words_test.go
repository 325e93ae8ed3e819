package secret

import (
	"slices"
	"strings"
	"testing"
)

// TestCommandLines: each program's own way to take a password, and beside it what resembles it and has to stay.
// A command line is split at bars here, since words may hold spaces.
func TestCommandLines(t *testing.T) {
	const key = "k3yabcdefghij0123456"
	for _, c := range [][2]string{
		// -p and -a, by program
		{"sshpass|-p|pw9|ssh", ""}, {"/usr/bin/sshpass|-p|pw9|ssh", ""}, {"mongodump|-p|pw9", ""},
		{"twine|upload|-p|pw9", ""},
		{"az|login|-p|pw9", ""}, {"redis-cli|-a|pw9", ""}, {"valkey-cli|-a|pw9", ""}, {"redis-cli|-p|6379|x", "-"},
		{"redis-cli|-p|pw9", "-"}, {"sshpass|-a|pw9", "-"},
		{"docker|login|-p|pw9", ""}, {"podman|login|-p|pw9", ""}, {"/usr/bin/podman|login|-p|pw9", ""},
		{"docker|run|-p|pw9", "-"}, {"npm|login|-p|pw9", "-"}, {"login|-p|pw9", "-"},
		{"python|t.py|-p|pw9", "-"}, {"python|t.py|-p|" + key, "python|t.py|-p|(redacted)"}, {"python|t.py|-p", "-"},
		{"t|--user|me|-p|pw9", ""}, {"t|--username|me|-p|pw9", ""}, {"t|--login|me|-p|pw9", ""},
		{"t|-U|me|-p|pw9", ""},
		{"t|-u|me|-p|pw9", ""}, {"t|-u|-p|pw9", "-"}, {"t|-p|pw9|-u", "-"}, {"-u|me|-p|pw9", "-"},
		{"python|-u|t.py|-p|pw9", "-"}, {"python3|-u|t.py|-p|pw9", "-"}, {"t|-u|me|--x|pw9", "-"},
		// glued to -p
		{"mysql|-ppw9|db", "mysql|-p(redacted)|db"}, {"mariadb-dump|-ppw9", "mariadb-dump|-p(redacted)"},
		{"mysql|-p|pw9", "-"}, {"mysql|-u|root|-p|pw9", "-"}, {"mysql|-p$PW", "-"}, {"mysql|-p1", "-"},
		{"t|-ppw9", "-"},
		{"mysql|-p(redacted)", "-"}, {"mysql|-Ppw9", "-"},
		// wandb login
		{"wandb|login|" + key, "wandb|login|(redacted)"}, {"wandb|login|pw9", "-"}, {"login|" + key, "-"},
		{"t|login|" + key, "-"}, {"wandb|" + key, "-"}, {"wandb|logout|" + key, "-"},
		// user:password
		{"curl|-u|me:pw9", "curl|-u|me:(redacted)"}, {"t|--userpwd|me:pw9", "t|--userpwd|me:(redacted)"},
		{"t|--proxy-user=me:pw9", "t|--proxy-user=me:(redacted)"}, {"docker|run|-u|1000:1000", "-"},
		{"t|-u|me:12345", "-"}, {"t|-u|me:123456", "t|-u|me:(redacted)"}, {"t|-u|me:", "-"}, {"t|-u|me", "-"},
		{"t|-u|http://x/y", "-"}, {"t|-u|a/b:c9", "-"}, {"t|-u|a b:c9", "-"}, {"t|-u|me:$PW", "-"},
		{"t|-u|:pw9", "t|-u|:(redacted)"}, {"t|-u|me:(redacted)", "-"}, {"t|--proxy-user=me", "-"},
		{"t|--name=me:pw9", "-"}, {"t|--name|me:pw9", "-"}, {"t|--auth|pw9", ""}, {"t|--auth|me:pw9", ""},
		{"t|me:pw9@db", "t|me:(redacted)@db"}, {"t|me:pw9@db:5432/x", "t|me:(redacted)@db:5432/x"},
		{"t|me:$PW@db", "-"}, {"t|image:1@sha256:00ff", "-"}, {"t|me:(redacted)@db", "-"}, {"t|user@host:path", "-"},
		// flags
		{"t|--token|pw9", ""}, {"t|-token|pw9", ""}, {"t|--token|--lr", "-"}, {"t|--token|-1", "-"},
		{"t|--token|-" + key, "t|--token|(redacted)"}, {"t|--token|true", "-"}, {"t|--token|$T", "-"},
		{"t|--token|/run/t", "-"}, {"t|--token|(redacted)", "-"}, {"t|--key|pw9", "-"},
		{"t|--key|" + key, "t|--key|(redacted)"},
		{"t|-k|pw9", "-"}, {"t|-k|" + key, "t|-k|(redacted)"}, {"t|-x|" + key, "-"}, {"t|token|pw9", "-"},
		{"t|--name|pw9|--token|pw9", "t|--name|pw9|--token|(redacted)"},
		{"t|--token|x|pw9", "t|--token|(redacted)|pw9"},
		// name=value
		{"t|--token=pw9", "t|--token=(redacted)"}, {"t|--token=", "-"}, {"t|--token=(redacted)", "-"},
		{"t|++a.token=pw9", "t|++a.token=(redacted)"},
		{"t|~token=pw9", "t|~token=(redacted)"}, {"TF_SESSION=pw9", "TF_SESSION=(redacted)"},
		{"TF_AUTH_KEY=pw9", "TF_AUTH_KEY=(redacted)"},
		{"HF_KEY=pw9", "HF_KEY=(redacted)"}, {"--model.key=pw9", "-"}, {"hf_thing_key=pw9", "-"},
		{"--a-key=" + key, "--a-key=(redacted)"},
		{"KEY=pw9", "-"}, {"HF_TOKEN_READ=pw9", "HF_TOKEN_READ=(redacted)"}, {"--HF_TOKEN_READ=pw9", "-"},
		{"TOKEN=pw9 go", "TOKEN=(redacted)"}, {"PWD=/x", "-"}, {"PWD=pw9", "-"}, {"OLDPWD=pw9", "-"},
		// a program in one word is read as text
		{"sh|-c|t --token pw9", "sh|-c|t --token (redacted)"},
		{"/bin/bash|-lc|t --token pw9 -v", "/bin/bash|-lc|t --token (redacted) -v"},
		{"bash|-c|token=pw9; x", "bash|-c|token=(redacted); x"},
		{"python|-c|password = 'pw9'; x()", "python|-c|password = '(redacted)'; x()"},
		{"bash|-lc|TOKEN=$T python t.py", "-"}, {"python|-c|TOKEN=pw9; go()", "python|-c|TOKEN=(redacted); go()"},
		{"t|-ac|TOKEN=pw9 x", "t|-ac|TOKEN=(redacted)"}, {"t|--sync|token=pw9; x", "t|--sync|token=(redacted)"},
	} {
		argv := strings.Split(c[0], "|")
		want := strings.Split(c[1], "|")
		switch c[1] {
		case "-":
			want = argv
		case "":
			want = strings.Split(strings.ReplaceAll(strings.ReplaceAll(c[0], "me:pw9", Mark), "pw9", Mark), "|")
		}
		if got := Words(argv); !slices.Equal(got, want) {
			t.Errorf("%q became\n%q, want\n%q", argv, got, want)
		} else if again := Words(got); !slices.Equal(again, got) {
			t.Errorf("a second pass made %q of %q", again, got)
		}
	}
}

// TestNames: what a name tells of the value behind it. A model's tokens and a table's keys are no secrets.
func TestNames(t *testing.T) {
	for want, names := range map[tell]string{
		surely: `token api-token hfToken access_token password db.password db_pass userPass apiKey API_KEY x-api-key
			api-keys wandbKey secretKey ssh_key signing_key access-tokens refresh_tokens token_value token2
			DB_PASSWORD12 apiKey1 token-2 api_key_old token_prod
			passwordfoo_password mypassword dbpasswd appsecret myapikey mysecretkey mypwd openaikey password_list secret_thing
			auth bearer jwt sas cookie webhook authorization credentials HTTPPassword secret_x_y credential_2`,
		maybe: `key keys my-key pass my_pass session private pat sig dsn signature
			mytoken hftoken credstore secretkeyx_key keyKey`,
		silent: `tokenizer eos-token pad_token max_token bos_token_id token_type tokens max-tokens num_tokens eos_tokens
			cache-key primary_key image_keys label-key token_path password_file secret_name api_key_id key_size key_path
			passes compass keyword monkey author lr data 2 value prod eostoken padtoken key_ttl monkeykey keyhash
			password_hash
			key_loss auth_mode passthrough imagekey`,
	} {
		for _, name := range strings.Fields(names) {
			if got := tells(name); got != want {
				t.Errorf("%s: %d, want %d", name, got, want)
			}
		}
	}
	for want, names := range map[tell]string{
		surely: `HF_TOKEN HF_TOKEN_READ HF_PAT TF_SESSION MLX_KEY HF_PRIVATE TF_DSN A_PASS AUTH_X A_SECRET_B COOKIE_JAR`,
		maybe:  `KEY PASS SESSION SESSION_STATE KEY_X PRIVATE_DATA_X`,
		silent: `PWD OLDPWD SESSION_MANAGER PATH EOS_TOKEN_X CACHE_KEY CACHE_KEY_X TOKENS_X TOKEN_PATH HF_TOKENS PAD_TOKEN
			X_PWD_FILE _`,
	} {
		for _, name := range strings.Fields(names) {
			if got := tellsVariable(name); got != want {
				t.Errorf("variable %s: %d, want %d", name, got, want)
			}
		}
	}
	for name, want := range map[string]string{"apiKey": "api key", "APIKey": "api key", "api_key": "api key",
		"HTTPServer": "http server", "a2B": "a2 b", "ABC": "abc", "--x.y:z": "x y z", "A": "a", "aB": "a b",
		"ABc": "a bc",
		"":    ""} {
		if got := strings.Join(splitName(name), " "); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	// A name as long as anybody likes: its end tells.
	if long := strings.Repeat("x_", 500); tells(long+"token") != surely || tells("token_"+long+"y") != silent {
		t.Error("a long name")
	}
	if tells("token_"+strings.Repeat("x", 90)) != silent || tells("password_"+strings.Repeat("y", 87)) != surely ||
		tells("password_"+strings.Repeat("y", 88)) != silent {
		t.Error("a name of 96 bytes is read whole, of a longer one the last 96")
	}
}

// TestKindsOfValue: what looks like a key, what is a choice, a reference, a path: each at its bounds.
func TestKindsOfValue(t *testing.T) {
	long := strings.Repeat("abcdefgh12345678", 257)
	for _, c := range []struct {
		what string
		is   func(string) bool
		yes  []string
		no   []string
	}{
		{"looks secret", looksSecret,
			[]string{"0123456789abcdef", "abcdefg1abcdefg1", long[:4096], "abcdefghi1-xyz-uv",
				"ab+/=_.~-!@#$%^&*:cdefghij12"},
			[]string{"0123456789abcde", "abcdef11abcdef11", long[:4097], "abcdefghijklmnop", "0123456789012345",
				"abcdefgh1-xyz-uvw1",
				"abcdefgh 12345678", "abcdefgh12345678é", ""}},
		{"mixed", mixed,
			[]string{"abcdefghijklmnopqrst", "abcdefghijk1", "aB1", "ab-cd-Ef-1", "AB-CD1", "12345678901a"},
			[]string{"abcdefghijklmnopqrs", "abcdefghij1", "ABC1", "ab-cd-ef", "aBc", "abcdef-ghijk1", "1", ""}},
		{"user and password", userAndPassword,
			[]string{"bWU6cHc=", "bWU6cHc", "bWU6YSBi", "Og=="},              // me:pw, me:a b, :
			[]string{"bWVwdw==", "bWU6CXB3", "authentication", "bWU6*", ""}}, // mepw, me:TABpw
		{"switch", isSwitch,
			[]string{"", "-", "true", "None", "AUTO", "1", "123", "1.5", "80:8080", "10.0.0.1:80", ":", "1e-4",
				"0.00001", "-1", "12345.67890",
				"+1e5"},
			[]string{"1234", "123456", "abc", "truth", "1.2.3", "10.0.0.1", "12345.678901", "a:1", "...", "--"}},
		{"reference", isReference,
			[]string{"$T", "${T}", "${T:-x}", "$(cat t)", "%T%", "%(t)s", "{t}", "{a.b}", "<pad>", "[PAD]", "***",
				"xxxx", "...", "env:X",
				"file:/x", "@tok.txt", "args.token", "os.environ['T']", "get(", "a.b.c"},
			[]string{"$", "pw9", "**", "xxx", "a.", "1.b", "envX", "ab.k3yabcdefghij0123456", "[pad]", "<a><b>", ""}},
		{"path", isPath,
			[]string{"/run/t", "~/t", "./t", "../t", "C:\\t", "key.pem", "a b.json", "/",
				"/a/bcdefghijklmnopqrstuvwxyz/0123456789.x"},
			[]string{"t", "run/t", "t.exe", "/run/t$", "/run/0123456789abcdef", "0123456789abcdef.json",
				"/bPxRfiCYEXAMPLEKEY/K7MDENG/abcdefghijkl",
				""}},
		{"carried", carried,
			[]string{"abcdefgh", "12345678", "pass12", "a-b-c-d", "ab_cd1"},
			[]string{"abcdefg", "1234567", "pas12", "a-b-c", "------", "postgres", "Postgres", "x" + Mark,
				"/work/ab1", "undefined", "1.25e-4"}},
	} {
		for _, v := range c.yes {
			if !c.is(v) {
				t.Errorf("%q: not %s", v, c.what)
			}
		}
		for _, v := range c.no {
			if c.is(v) {
				t.Errorf("%q: %s", v, c.what)
			}
		}
	}
}

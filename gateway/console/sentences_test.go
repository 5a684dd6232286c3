package console

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/phone"
)

// spoken is a part of the services with sentences that a page shows: a file, and its functions and variables; empty for all.
type spoken struct {
	file  string
	names []string
}

// saidOnPages lists the sentences of the Why page, of parked sessions and of refused numbers.
var saidOnPages = []spoken{
	{file: "services/messaging/send/explain.go"},
	{file: "services/messaging/send/result.go", names: []string{"resultOf", "resultOfRow", "explainParked", "toResolve", "explain", "meaningOf"}},
	{file: "services/messaging/send/caps.go", names: []string{"String", "words", "advice"}},
	{file: "services/messaging/twilio/codes.go"},
	{file: "services/onboarding/conversation/explain.go"},
	{file: "services/onboarding/conversation/explain_wait.go"},
	{file: "services/onboarding/conversation/reasons.go"},
	{file: "services/onboarding/conversation/replies.go", names: []string{"unattended", "ambiguous", "AmbiguousReason"}},
	{file: "services/onboarding/conversation/alarms.go", names: []string{"mend"}},
	{file: "services/onboarding/conversation/ended_jobs.go", names: []string{"parkOnce"}},
	{file: "services/onboarding/inbound/ended_jobs.go", names: []string{"GiveUp", "Cancel"}},
	{file: "services/onboarding/conversation/activation.go", names: []string{"Error"}},
	{file: "services/onboarding/conversation/conversation.go", names: []string{
		"ErrNoSession", "ErrNoDeadLetter", "ErrConsentRequired", "ErrEnded", "ErrOtherOpen",
	}},
	{file: "services/onboarding/people/errors.go", names: []string{"ErrNoProfile", "ErrOnHold", "ErrOptedOut", "ErrNoSender", "ErrAwaitsOperator"}},
	{file: "services/onboarding/people/profiles.go", names: []string{"ReadPhone", "ParseZone"}},
	{file: "services/onboarding/people/prices.go", names: []string{"readPrices"}},
	{file: "platform/roster/person.go"},
	{file: "platform/roster/file.go", names: []string{"Error", "Read", "Next", "quoted", "read"}},
	{file: "gateway/console/operations/runs.go", names: []string{"errNoPeople", "errBoth", "errTooMany"}},
	{file: "gateway/console/operations/list.go", names: []string{"errNotCSV", "errCollected"}},
	{file: "gateway/console/operations/import.go", names: []string{"errNoFile", "errTooManyLines"}},
	{file: "gateway/console/operations/operations.go", names: []string{"errForm"}},
	{file: "gateway/console/operations/settings.go", names: []string{"errNumber", "errPrice"}},
	{file: "services/onboarding/flow/texts.go", names: []string{"textProblems"}},
	{file: "services/onboarding/flow/strict_texts.go", names: []string{"senseProblems"}},
	{file: "services/onboarding/flow/edit.go", names: []string{"Measure"}},
	{file: "services/onboarding/flows/store_draft.go", names: []string{"ErrNoDraft", "ErrDraftOutdated"}},
	{file: "gateway/console/operations/settings_sending.go", names: []string{"errCap", "errNoCountries", "errNotOurs"}},
	{file: "gateway/console/operations/senders.go", names: []string{"errRate"}},
	{file: "services/onboarding/goals/explain.go"},
	{file: "services/onboarding/tickets/answers.go", names: []string{"notHandedOver", "follow", "GiveUp"}},
	{file: "services/onboarding/tickets/service.go", names: []string{"HeldForDistress"}},
	{file: "platform/phone/marks.go"},
	{file: "platform/phone/policy.go", names: []string{"ErrRefused", "Allows"}},
}

// constants are the texts of a file by their names.
type constants map[string]string

// hole stands for what a sentence is filled in with.
const hole = "H0LE"

// sentencesOf are the texts that a file builds, each with holes where something is filled in.
func sentencesOf(t *testing.T, s spoken) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", s.file), nil, 0)
	require.NoError(t, err)
	in := constants{}
	ast.Inspect(file, func(n ast.Node) bool {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
			for _, spec := range d.Specs {
				for i, value := range spec.(*ast.ValueSpec).Values {
					if text, ok := in.textOf(value); ok {
						in[spec.(*ast.ValueSpec).Names[i].Name] = text
					}
				}
			}
		}
		return true
	})
	var found []string
	collect := func(n ast.Node) bool {
		if _, ok := n.(*ast.StructType); ok { // its tags
			return false
		}
		text, ok := in.textOf(n)
		text = verb.ReplaceAllString(text, hole)
		if ok && strings.Contains(strings.Trim(text, " ,;:."), " ") {
			found = append(found, text)
		}
		return true
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if len(s.names) == 0 || slices.Contains(s.names, d.Name.Name) {
				in.walk(d.Body, collect)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && (len(s.names) == 0 || slices.Contains(s.names, v.Names[0].Name)) {
					in.walk(v, collect)
				}
			}
		}
	}
	return found
}

// walk visits the outermost texts alone, and what is filled into them.
func (in constants) walk(n ast.Node, visit func(ast.Node) bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		if _, ok := in.textOf(n); ok {
			visit(n)
			for _, inner := range in.filledIn(n) {
				in.walk(inner, visit)
			}
			return false
		}
		return visit(n)
	})
}

var verb = regexp.MustCompile(`%[a-z0-9+]*[a-zA-Z]`)

// textOf returns the text of an expression, with holes: a literal, a sum of texts, or a format.
func (in constants) textOf(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(n.Value)
		return text, n.Kind == token.STRING && err == nil
	case *ast.Ident:
		text, ok := in[n.Name]
		return text, ok
	case *ast.ParenExpr:
		return in.textOf(n.X)
	case *ast.BinaryExpr:
		left, ok := in.textOf(n.X)
		right, too := in.textOf(n.Y)
		if n.Op != token.ADD || !ok && !too {
			return "", false
		}
		if !ok {
			left = hole
		}
		if !too {
			right = hole
		}
		return left + right, true
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) == 0 || called.Sel.Name != "Sprintf" && called.Sel.Name != "Errorf" && called.Sel.Name != "New" {
			return "", false
		}
		text, ok := in.textOf(n.Args[0])
		return verb.ReplaceAllString(text, hole), ok
	}
	return "", false
}

// filledIn are the parts of a text that are no text themselves.
func (in constants) filledIn(n ast.Node) []ast.Node {
	switch n := n.(type) {
	case *ast.ParenExpr:
		return in.filledIn(n.X)
	case *ast.BinaryExpr:
		var all []ast.Node
		for _, side := range []ast.Expr{n.X, n.Y} {
			if _, ok := in.textOf(side); ok {
				all = append(all, in.filledIn(side)...)
			} else {
				all = append(all, side)
			}
		}
		return all
	case *ast.CallExpr:
		var all []ast.Node
		for _, a := range n.Args[1:] {
			all = append(all, a)
		}
		return all
	}
	return nil
}

var portuguese = vocabularies[1]

func TestEverySentenceOfTheWhyPageIsSaidInPortuguese(t *testing.T) {
	t.Parallel()
	found, unsaid := 0, []string{}
	for _, s := range saidOnPages {
		for _, text := range sentencesOf(t, s) {
			found++
			part := strings.TrimSpace(glued.ReplaceAllString(text, "$1$2"))
			if slices.Contains(saidToNobody, part) {
				continue
			}
			_, missed := portuguese.book.Translate(part)
			for _, m := range missed {
				if plain.MatchString(named.ReplaceAllString(strings.ReplaceAll(m, hole, ""), "")) {
					unsaid = append(unsaid, s.file+": "+m+" (of: "+text+")")
				}
			}
		}
	}
	require.Empty(t, unsaid, "words/pt-BR.json has no sentence for these")
	require.Greater(t, found, 200)
}

// glued matches fills that are parts of another text, before or behind this one.
var glued = regexp.MustCompile(`^` + hole + `([a-z])|([a-z])` + hole + `$`)

// plain are words of a sentence, once named, which stays in every language, is taken out: methods of /v1 and addresses.
var (
	plain = regexp.MustCompile(`\b[a-z]{2,}\b`)
	named = regexp.MustCompile(`(?:(?:GET|POST|PUT) )?/v1/[^\s{]*(?:\{[a-z_ ]+\}\S*)?|https://\S+|with RESOLUTION_NOT_SENT`)
)

// saidToNobody are errors of the program itself and words that are read, which no page shows.
var saidToNobody = []string{
	"look for the send: " + hole, "read a recipient: " + hole, "read why message " + hole + " is parked: " + hole, "render " + hole + ": " + hole,
	"explain a send: " + hole, "parked; job " + hole + " failed for good", "brazilian portuguese",
	"by " + hole, "but code " + hole, // which are parts of longer sayings
}

func TestTextsOfServicesInPortuguese(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{
			name: "Refusal", text: "Twilio 30034: the number is not registered for A2P 10DLC. → complete the sender's registration in the Twilio console",
			want: "Twilio 30034: o número não está registrado para A2P 10DLC. → conclua o registro do remetente no console da Twilio",
		},
		{
			name: "PhoneOfAForm", text: "invalid profile: phone: write it in international format, with + and the country code, such as +14155550123; locale must be one of en, pt-BR",
			want: "dados inválidos: telefone: escreva-o no formato internacional, com + e o código do país, como +5511961234567; o idioma deve ser um destes: en, pt-BR", //nolint:misspell // Portuguese
		},
		{
			name: "MarkOfAPhone", text: `phone: use only digits after the +: "~" (U+007E) is in the way`, want: `telefone: use só algarismos depois do +: "~" (U+007E) atrapalha`,
		},
		{
			name: "Wait", text: "it waits in onboarding:awaiting_opening_response: for the person's reply; the opening has not reached the person: the last one is throttled",
			want: "espera em onboarding:awaiting_opening_response: pela resposta da pessoa; a abertura não chegou à pessoa: a última está assim: limitada, virá depois",
		},
		{
			name: "Explained", text: "Twilio did not process the last attempt, number 2, of 2026-11-24T12:00:00Z: the account is suspended; to do: settle it with Twilio",
			want: "a Twilio não processou a última tentativa, número 2, de 2026-11-24T12:00:00Z: a conta está suspensa; o que fazer: resolva com a Twilio",
		},
		{
			name: "InDoubt", text: "Its receipt settles it, or Twilio's list of messages does, which is asked at 2026-11-24T12:00:00Z: seen there it is adopted; absent twice it is sent again, or left to an operator where its flow says never_duplicate.",
			want: "A confirmação dele decide, ou a lista de mensagens da Twilio, que é consultada em 2026-11-24T12:00:00Z: se estiver lá, é adotado; se faltar duas vezes, é enviado de novo, ou fica para um operador onde o fluxo diz never_duplicate.",
		},
		{name: "SessionStatus", text: "the session is stuck and onboarding", want: "a sessão está presa: precisa de um operador, em onboarding"},
		{name: "PauseWithAnOperatorsWords", text: "scheduling of the organisation is paused by ada: see if the shop is down", want: "o agendamento da organização foi pausado por ada: see if the shop is down"},
		{name: "Page", text: "there is no such page", want: "essa página não existe"},
		{name: "Flow", text: "there is no such flow, or it has no such version", want: "não existe esse fluxo, ou ele não tem essa versão"},
		{name: "ID", text: "invalid request: ticket_id must be a UUID", want: "pedido inválido: ticket_id precisa ser um UUID"},
		{
			name: "SavedReply", text: "invalid request: body has no fallback in {first_name}: write it as {first_name|...}",
			want: "pedido inválido: o texto não tem alternativa em {first_name}: escreva {first_name|...}",
		},
		{
			name: "Filter", text: "invalid run: filter: it has a name that is unknown; the names are person.locale, person.first_name",
			want: "disparo inválido: filtro: tem um nome desconhecido; os nomes são person.locale, person.first_name",
		},
		{name: "Job", text: "twilio.message.received: needs an operator: two rows", want: "texto recebido pela Twilio: precisa de um operador: two rows"},
		{name: "NoWordsOfOurs", text: "a 50% off %s: due to rain", want: "a 50% off %s: due to rain"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, _ := portuguese.book.Translate(tt.text)
			require.Equal(t, tt.want, got)
		})
	}
}

func BenchmarkSentences(b *testing.B) {
	for b.Loop() {
		portuguese.book.Translate("it waits in onboarding:awaiting_opening_response: for the person's reply; the opening has not reached the person: the last one is throttled")
	}
}

func TestABadPhoneIsRefusedInTheReadersLanguage(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	b.page(root + "/people?lang=pt-BR")
	for reason, want := range map[phone.Reason]string{
		phone.NoPlus: "formato internacional", phone.Mark: "use só algarismos depois do +: &#34;~&#34; (U+007E) atrapalha", //nolint:misspell // Portuguese
		phone.Letters: "sem letras nem ramal", phone.UnknownCountry: "nenhum país tem este código", phone.WrongLength: "algarismos de menos ou de mais",
		phone.NotAssigned: "confira o DDD",
	} {
		refused := &phone.Refusal{Reason: reason, Mark: '~'}
		s.refuses("ListProfiles", codes.InvalidArgument, "invalid profile: phone: "+refused.Error())
		_, page := b.page(root + "/people?q=%2B12")
		require.Regexp(t, `Esta busca não funciona: <bdi>dados inválidos: telefone: [^<]*`+regexp.QuoteMeta(want), page)
		s.refuses("CreateProfile", codes.InvalidArgument, "invalid profile: phone: "+refused.Error())
		page = b.said(root+"/people", url.Values{"phone": {"+12"}, "first_name": {"Ana"}, "back": {root + "/people"}})
		require.Regexp(t, `Não feito: dados inválidos: telefone: [^<]*`+regexp.QuoteMeta(want), page)
	}
}

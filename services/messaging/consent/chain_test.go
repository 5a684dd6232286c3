package consent_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/messaging/consent"
)

var firstLine = consent.Line{
	OrgID: "0190a000-0000-7000-8000-00000000000a", Phone: "+14155550123", Seq: 1,
	At: time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC), State: "opted_out", Source: "inbound", Words: "não, pare\nde 🛑",
	Sender: "+14155550100", MessageID: "0190a000-0000-7000-8000-0000000000c1", KeywordPack: "k", Rules: "r",
	ConfirmedBy: "paceline", Confirmation: "Você não receberá mais.",
}

// The encoding is written out here once, so that a change of it without a new version fails this test.
func TestDigestIsWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	at := "1795176000123456"
	written := "18:paceline-consent-1,36:0190a000-0000-7000-8000-00000000000a,12:+14155550123,1:1,16:" + at + ",9:opted_out,7:inbound," +
		"18:não, pare\nde 🛑,12:+14155550100,36:0190a000-0000-7000-8000-0000000000c1,1:k,1:r,8:paceline,26:Você não receberá mais.,64:" +
		consent.NoHash + ","
	sum := sha256.Sum256([]byte(written))
	require.Equal(t, hex.EncodeToString(sum[:]), firstLine.Digest(consent.NoHash))
}

// chained hashes lines; those before sealedFrom are from before there were chains.
func chained(lines []consent.Line, sealedFrom int) ([]consent.Line, consent.Chain) {
	lines, prev := slices.Clone(lines), consent.NoHash
	for i := range lines {
		lines[i].OrgID, lines[i].Phone, lines[i].Seq = firstLine.OrgID, firstLine.Phone, int64(i+1)
		digest := lines[i].Digest(prev)
		if i >= sealedFrom {
			lines[i].PrevHash, lines[i].Hash = prev, digest
		}
		prev = digest
	}
	return lines, consent.Chain{Length: int64(len(lines)), Head: prev}
}

func drawLine(t *rapid.T) consent.Line {
	words := rapid.String()
	return consent.Line{
		At:    time.UnixMicro(rapid.Int64Range(0, 1<<51).Draw(t, "at")),
		State: rapid.SampledFrom([]string{"opted_in", "opted_out"}).Draw(t, "state"), Source: words.Draw(t, "source"),
		Words: words.Draw(t, "words"), Sender: words.Draw(t, "sender"), MessageID: words.Draw(t, "message"),
		KeywordPack: words.Draw(t, "pack"), Rules: words.Draw(t, "rules"), ConfirmedBy: words.Draw(t, "by"), Confirmation: words.Draw(t, "confirmation"),
	}
}

// An untouched chain holds, and whatever is done to any one line of it is found, at that line or at the next.
func TestVerifyFindsEveryTampering(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.Custom(drawLine), 1, 6).Draw(t, "lines")
		lines, chain := chained(drawn, rapid.IntRange(0, len(drawn)).Draw(t, "sealed from"))
		require.Nil(t, consent.Verify(lines, chain))

		i := rapid.IntRange(0, len(lines)-1).Draw(t, "victim")
		tampered := slices.Clone(lines)
		victim := &tampered[i]
		at := int64(i + 1)
		switch rapid.IntRange(0, 7).Draw(t, "deed") {
		case 0:
			victim.Words += "!"
		case 1:
			victim.State += "x"
		case 2:
			victim.At = victim.At.Add(time.Microsecond)
		case 3: // what one field loses the next one gains
			if victim.Words == "" {
				victim.Words = "x"
			}
			victim.Sender, victim.Words = victim.Words+victim.Sender, ""
		case 4:
			tampered = slices.Delete(tampered, i, i+1)
		case 5:
			tampered = slices.Insert(tampered, i, tampered[i])
		case 6: // rewritten together with its own hash
			victim.Words += "!"
			if victim.Hash != "" {
				victim.Hash = victim.Digest(victim.PrevHash)
			}
		case 7:
			victim.Confirmation += "x"
		}
		broken := consent.Verify(tampered, chain)
		require.NotNil(t, broken)
		require.GreaterOrEqual(t, broken.Seq, at)
		require.NotEmpty(t, broken.Why)
	})
}

func TestVerify(t *testing.T) {
	t.Parallel()
	three := []consent.Line{firstLine, firstLine, firstLine}
	lines, chain := chained(three, 0)
	unsealed, unsealedChain := chained(three, 3)
	mixed, mixedChain := chained(three, 2)
	changed := func(from []consent.Line, i int, change func(*consent.Line)) []consent.Line {
		from = slices.Clone(from)
		change(&from[i])
		return from
	}
	tests := []struct {
		name  string
		lines []consent.Line
		chain consent.Chain
		want  int64 // 0 when it holds
	}{
		{name: "Untouched", lines: lines, chain: chain},
		{name: "Empty"},
		{name: "OldLinesThatNothingSealsYet", lines: unsealed},
		{name: "OldLinesThatTheLastHashSeals", lines: unsealed, chain: unsealedChain},
		{name: "OldLinesThatANewLineSeals", lines: mixed, chain: mixedChain},
		{name: "ChangedLine", lines: changed(lines, 1, func(l *consent.Line) { l.Words = "START" }), chain: chain, want: 2},
		{name: "ChangedOldLine", lines: changed(mixed, 0, func(l *consent.Line) { l.Words = "START" }), chain: mixedChain, want: 3},
		{name: "ChangedOldLineUnderTheLastHash", lines: changed(unsealed, 0, func(l *consent.Line) { l.Words = "START" }), chain: unsealedChain, want: 3},
		{name: "MissingInTheMiddle", lines: slices.Delete(slices.Clone(lines), 1, 2), chain: chain, want: 2},
		{name: "MissingAtTheEnd", lines: lines[:2], chain: chain, want: 3},
		{name: "MoreThanThereWere", lines: lines, chain: consent.Chain{Length: 2, Head: lines[1].Hash}, want: 3},
		{name: "HashTakenAway", lines: changed(lines, 2, func(l *consent.Line) { l.Hash, l.PrevHash = "", "" }), chain: chain, want: 3},
		{name: "AllHashesTakenAwayAndALineChanged", lines: changed(unsealed, 1, func(l *consent.Line) { l.State = "opted_in" }), chain: chain, want: 3},
		{name: "LineOfAnother", lines: changed(lines, 1, func(l *consent.Line) { l.Phone = "+14155550199" }), chain: chain, want: 2},
		{name: "Swapped", lines: []consent.Line{lines[1], lines[0], lines[2]}, chain: chain, want: 1},
		{name: "HeadGone", lines: lines, want: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			broken := consent.Verify(tt.lines, tt.chain)
			if tt.want == 0 {
				require.Nil(t, broken)
				return
			}
			require.NotNil(t, broken)
			require.Equal(t, tt.want, broken.Seq)
		})
	}
}

// exported is a page as the API writes it.
func exported(lines []consent.Line, c consent.Chain) string {
	events := make([]string, len(lines))
	for i, l := range lines {
		events[i] = fmt.Sprintf(`{"at":%q,"state":%q,"source":%q,"words":"n\u00e3o, pare\nde 🛑","sender":%q,"message_id":%q,"seq":%d,"keyword_pack":%q,`+
			`"rules_version":%q,"confirmed_by":%q,"confirmation":"Voc\u00ea n\u00e3o receber\u00e1 mais.","prev_hash":%q,"hash":%q}`,
			l.At.UTC().Format(time.RFC3339Nano), l.State, l.Source, l.Sender, l.MessageID, l.Seq, l.KeywordPack, l.Rules, l.ConfirmedBy, l.PrevHash, l.Hash)
	}
	return fmt.Sprintf(`{"consent":{"phone":%q},"events":[%s],"chain":{"org_id":%q,"length":%d,"head":%q}}`,
		firstLine.Phone, strings.Join(events, ","), firstLine.OrgID, c.Length, c.Head)
}

func TestReadExport(t *testing.T) {
	t.Parallel()
	lines, chain := chained([]consent.Line{firstLine, firstLine, firstLine}, 1)

	t.Run("WholeAndInPages", func(t *testing.T) {
		t.Parallel()
		for _, pages := range []string{exported(lines, chain), exported(lines[:2], chain) + "\n" + exported(lines[2:], chain), exported(lines[2:], chain) + exported(lines[:2], chain)} {
			read, head, err := consent.ReadExport(strings.NewReader(pages))
			require.NoError(t, err)
			require.Nil(t, consent.Verify(read, head))
			require.Len(t, read, 3)
		}
	})

	t.Run("ChangedOrCutOff", func(t *testing.T) {
		t.Parallel()
		for page, seq := range map[string]int64{
			strings.Replace(exported(lines, chain), `"source":"inbound"`, `"source":"operator"`, 1): 2, // the first one has no hash yet
			exported(lines[:2], chain): 3,
		} {
			read, head, err := consent.ReadExport(strings.NewReader(page))
			require.NoError(t, err)
			broken := consent.Verify(read, head)
			require.NotNil(t, broken)
			require.Equal(t, seq, broken.Seq)
		}
	})

	t.Run("WhatIsNoExportIsSaidToBeNone", func(t *testing.T) {
		t.Parallel()
		for _, page := range []string{"", "{}", "[]", `{"consent":{"phone":"+1"}}`, exported(lines, chain) + "x", `{"events":[{"at":"yesterday"}]}`} {
			_, _, err := consent.ReadExport(strings.NewReader(page))
			require.ErrorIs(t, err, consent.ErrExport, page)
		}
	})
}

func FuzzReadExport(f *testing.F) {
	lines, chain := chained([]consent.Line{firstLine, firstLine}, 0)
	f.Add(exported(lines, chain))
	f.Add("{}")
	f.Add(exported(lines[1:], chain))
	f.Fuzz(func(t *testing.T, page string) {
		read, head, err := consent.ReadExport(strings.NewReader(page))
		if err != nil {
			require.ErrorIs(t, err, consent.ErrExport)
			require.Empty(t, read)
			return
		}
		_ = consent.Verify(read, head) // whatever it says, it comes to an end
	})
}

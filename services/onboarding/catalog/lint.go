package catalog

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// placeholder is the only one there is.
const placeholder = "{first_name}"

// A text must fit two segments. In GSM-7 those hold 306 characters, and a few are kept in hand; one character outside
// moves the whole text to UCS-2, where they hold 134. A text with a name always counts as UCS-2: João would make it so.
const (
	maxGSM7 = 300
	maxUCS2 = 134
)

// gsm7 is the alphabet of GSM 03.38 as far as our languages need it. ã, õ, ç, á and ê are not in it, and the characters
// that count twice are left out, since copy has no use for them.
const gsm7 = " !\"#%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" +
	"£$¥èéùìòÇØøÅåÆæßÉÄÖÑÜ§¿¡äöñüà"

var (
	messageKey = regexp.MustCompile(`^ONBOARDING_MESSAGE_[1-9][0-9]{0,2}$`)
	counter    = regexp.MustCompile(`(?i)\d\s*(/|of|out of|de)\s*\d|\d\s*%|\b(step|part|passo|etapa|parte)\s+\d`)
)

// requiredKeys are the texts that every version has in every language.
func requiredKeys() []string {
	return []string{
		"ONBOARDING_OPENING", "ONBOARDING_EXPLANATION", "ONBOARDING_LATER",
		"ONBOARDING_MESSAGE_1", "ONBOARDING_MESSAGE_2", "ONBOARDING_MESSAGE_3", "ONBOARDING_MESSAGE_4",
	}
}

// forbiddenPhrases is what we never say, in lower case: judging people, pressing them, making them feel guilty,
// promising what nobody can promise.
func forbiddenPhrases() []string {
	return []string{
		"great job", "good job", "nice work", "well done", "congratulations", "congrats", "amazing", "awesome", "proud of you",
		"last chance", "final chance", "hurry", "act now", "act fast", "don't miss", "urgent", "only today", "too late",
		"you must", "you have to",
		"disappointed", "we miss you", "you forgot", "you haven't", "still waiting", "don't give up",
		"guarantee", "guaranteed", "guarantees", "promise", "risk-free", "never fails",
		"parabéns", "muito bem", "bom trabalho", "ótimo trabalho", "mandou bem", "incrível", "orgulho de você",
		"última chance", "corra", "não perca", "urgente", "só hoje", "tarde demais", "você deve", "você precisa", "você tem que",
		"decepcionado", "decepcionada", "sentimos sua falta", "você esqueceu", "você ainda não", "não desista",
		"garantia", "garantido", "garantida", "garantimos", "prometemos", "sem risco",
	}
}

// shoutable are the words that people are asked to text back, and so the only ones in capitals.
func shoutable() []string { return []string{"STOP", "START", "HELP", "PARAR", "SAIR", "AJUDA"} }

// problems are what is wrong with an edition.
func (e edition) problems() []string {
	var found []string
	if e[fallback] == nil {
		found = append(found, "language "+fallback+" is missing; every other falls back to it")
	}
	keys := requiredKeys()
	for _, texts := range e {
		keys = slices.AppendSeq(keys, maps.Keys(texts))
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if !slices.Contains(requiredKeys(), key) && !messageKey.MatchString(key) {
			found = append(found, key+" is not a key of onboarding")
		}
		for _, locale := range slices.Sorted(maps.Keys(e)) {
			for _, problem := range textProblems(key, e[locale][key]) {
				found = append(found, fmt.Sprintf("%s in %s %s", key, locale, problem))
			}
		}
	}
	return found
}

// textProblems are what is wrong with one text, each as the end of a sentence.
func textProblems(key, text string) []string {
	if strings.TrimSpace(text) == "" {
		return []string{"is missing or empty"}
	}
	var found []string
	fixed := strings.ReplaceAll(text, placeholder, "")
	if strings.ContainsAny(fixed, "{}") {
		found = append(found, "has a brace outside "+placeholder)
	}
	if key == "ONBOARDING_OPENING" && fixed == text {
		found = append(found, "does not greet with "+placeholder)
	}
	if strings.TrimSpace(text) != text || strings.ContainsFunc(text, unicode.IsControl) {
		found = append(found, "has a line break or space around it")
	}
	if problem := lengthProblem(text); problem != "" {
		found = append(found, problem)
	}
	return append(found, toneProblems(fixed)...)
}

// lengthProblem says when a text takes more than two segments with a name of maxName units.
func lengthProblem(text string) string {
	limit, why := maxGSM7, "in GSM-7"
	if strings.Contains(text, placeholder) {
		limit, why = maxUCS2, "because a name may leave GSM-7"
	}
	for _, r := range strings.ReplaceAll(text, placeholder, "") {
		if !strings.ContainsRune(gsm7, r) {
			limit, why = maxUCS2, fmt.Sprintf("because %q is not in GSM-7", r)
			break
		}
	}
	if length := units(strings.ReplaceAll(text, placeholder, strings.Repeat("n", maxName))); length > limit {
		return fmt.Sprintf("is %d characters; two segments hold %d %s", length, limit, why)
	}
	return ""
}

// toneProblems are the things in a text that we do not say.
func toneProblems(text string) []string {
	var found []string
	words := strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' && r != '-'
	})
	said := " " + strings.ToLower(strings.Join(words, " ")) + " "
	for _, phrase := range forbiddenPhrases() {
		if strings.Contains(said, " "+phrase+" ") {
			found = append(found, fmt.Sprintf("says %q", phrase))
		}
	}
	if counter.MatchString(text) {
		found = append(found, "counts progress")
	}
	if strings.Contains(text, "!!") {
		found = append(found, "has more than one ! in a row")
	}
	for _, word := range words {
		if len([]rune(word)) > 3 && word == strings.ToUpper(word) && word != strings.ToLower(word) && !slices.Contains(shoutable(), word) {
			found = append(found, fmt.Sprintf("shouts %q", word))
		}
	}
	return found
}

// units is the length in UTF-16 code units, which is what UCS-2 counts.
func units(text string) int {
	length := 0
	for _, r := range text {
		length += utf16.RuneLen(r)
	}
	return length
}

// firstUnits is the beginning of a word that takes at most limit units.
func firstUnits(word string, limit int) string {
	used := 0
	for i, r := range word {
		if used += utf16.RuneLen(r); used > limit {
			return word[:i]
		}
	}
	return word
}

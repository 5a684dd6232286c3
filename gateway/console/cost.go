package console

import (
	"math"
	"strconv"

	"golang.org/x/text/number"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// millionths of a currency: prices are multiplied in them.
const millionths = 1_000_000

// prices has an organisation's prices of a segment by country code, in millionths of its currency. It is empty without a list.
type prices struct {
	currency string
	of       map[string]int64
}

func priceList(set *onboardingv1.SegmentPrices) prices {
	list := prices{currency: set.GetCurrency(), of: map[string]int64{}}
	for country, written := range set.GetPrices() {
		if n, err := strconv.ParseFloat(written, 64); err == nil { // onboarding stores nothing else
			list.of[country] = int64(math.Round(n * millionths))
		}
	}
	return list
}

// cost multiplies the segments of some countries. unpriced are those to countries without a price.
func (p prices) cost(countries []*messagingv1.CountrySegments) (sum, unpriced int64) {
	for _, c := range countries {
		if each, ok := p.of[c.GetCountryCode()]; ok {
			sum += each * c.GetSegments()
		} else {
			unpriced += c.GetSegments()
		}
	}
	return sum, unpriced
}

// country has what was sent to a country.
type country struct {
	*messagingv1.CountrySegments

	Priced bool
	Price  int64
	Cost   int64
}

// priced returns the trend with the countries, and the cost where the organisation has a price list.
func (t trend) priced(texts *messagingv1.GetMessagingTrendResponse, list prices) trend {
	for _, n := range texts.GetCountries() {
		each, ok := list.of[n.GetCountryCode()]
		t.Countries = append(t.Countries, country{n, ok, each, each * n.GetSegments()})
	}
	if len(list.of) == 0 {
		return t
	}
	t.Currency, t.Total = list.currency, &country{CountrySegments: &messagingv1.CountrySegments{}}
	t.Total.Cost, t.Unpriced = list.cost(texts.GetCountries())
	for _, n := range texts.GetCountries() {
		t.Total.Messages, t.Total.Segments = t.Total.GetMessages()+n.GetMessages(), t.Total.GetSegments()+n.GetSegments()
	}
	cost := series{Name: "money"}
	for _, p := range texts.GetPeriods() {
		sum, _ := list.cost(p.GetCountries())
		cost.Of = append(cost.Of, sum)
	}
	t.Figures = append(t.Figures, figure{Name: "money", Series: []series{cost}, Money: true})
	return t
}

// Figure writes a number of a figure: a count, or an amount.
func (f frame) Figure(t trend, g figure, n int64) string {
	if g.Money {
		return f.Amount(t.Currency, n)
	}
	return f.Number(n)
}

// Amount writes an amount of money in millionths: with two decimals, or with those that a small one needs.
func (f frame) Amount(currency string, n int64) string {
	decimals := 2
	if n != 0 && n < millionths {
		decimals = 4
	}
	amount := number.Decimal(float64(n)/millionths, number.MinFractionDigits(2), number.MaxFractionDigits(decimals))
	return f.printer.Sprint(currency, "\u00a0", amount)
}

// Price writes the price of a segment as it was decided.
func (f frame) Price(n int64) string {
	return f.printer.Sprint(number.Decimal(float64(n)/millionths, number.MaxFractionDigits(6)))
}

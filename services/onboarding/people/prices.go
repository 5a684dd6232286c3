package people

import (
	"regexp"

	"golang.org/x/text/currency"

	"paceline.internal/platform/phone"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1" //nolint:depguard // settings are stored in the form of the RPC
	"paceline.internal/services/onboarding/request"
)

// Prices has what an organisation pays for a segment. Nothing is charged by it: the console shows the cost.
type Prices struct {
	Currency string            `json:"currency"` // ISO 4217
	Prices   map[string]string `json:"prices"`   // decimals by country code, such as +1
}

// maxPrices bounds a price list; there are fewer country codes.
const maxPrices = 300

// price is a decimal that a console multiplies exactly in millionths.
var price = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]{1,6})?$`)

// readPrices reads a price list; nil of none, and an empty one ends the list.
func readPrices(in *onboardingv1.SegmentPrices) (*Prices, error) {
	if in == nil {
		return nil, nil //nolint:nilnil // nothing is decided anew
	}
	list := &Prices{Currency: in.GetCurrency(), Prices: map[string]string{}}
	if len(in.GetPrices()) == 0 {
		list.Currency = ""
		return list, nil
	}
	if unit, err := currency.ParseISO(list.Currency); err != nil || unit.String() != list.Currency {
		return nil, request.Invalid("settings.segment_prices.currency must be three capital letters of ISO 4217, such as USD")
	}
	if len(in.GetPrices()) > maxPrices {
		return nil, request.Invalid("settings.segment_prices.prices must be at most %d", maxPrices)
	}
	for country, of := range in.GetPrices() {
		if !phone.IsCountryCode(country) {
			return nil, request.Invalid("settings.segment_prices.prices: %q is no country code, such as +1", country)
		}
		if !price.MatchString(of) {
			return nil, request.Invalid("settings.segment_prices.prices: the price of %s must be 0 to 999.999999, such as 0.0079", country)
		}
		list.Prices[country] = of
	}
	return list, nil
}

// shown writes a price list; nil of none.
func (p *Prices) shown() *onboardingv1.SegmentPrices {
	if p == nil || len(p.Prices) == 0 {
		return nil
	}
	return &onboardingv1.SegmentPrices{Currency: p.Currency, Prices: p.Prices}
}

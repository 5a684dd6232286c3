package consent

import "github.com/nyaruka/phonenumbers" // want `it imports github\.com/nyaruka/phonenumbers`

var _ = phonenumbers.Parse

package route

import (
	"errors"
	"strings"

	"github.com/google/uuid"
)

// Owners are the organisations of what a vendor calls for, such as WhatsApp numbers and shops, by its id; an empty organisation is that of
// DEFAULT_ORG_ID. None has all belong to DEFAULT_ORG_ID.
type Owners map[string]string

// ReadOwners reads ids, separated by commas, each of them alone or as ID=ORG_ID.
func ReadOwners(text string) (Owners, error) {
	owners := Owners{}
	for one := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(text) == "" {
			break
		}
		id, orgID, named := strings.Cut(strings.TrimSpace(one), "=")
		_, twice := owners[id]
		org, err := uuid.Parse(orgID)
		switch {
		case id == "" || CheckEventID("id", id) != nil:
			return nil, errors.New("has an id that is none")
		case named && err != nil:
			return nil, errors.New("has an organisation that is no UUID: write ID or ID=ORG_ID")
		case twice:
			return nil, errors.New("has an id twice, and one organisation alone hears it")
		}
		owners[id] = ""
		if named {
			owners[id] = org.String()
		}
	}
	return owners, nil
}

// Of returns the organisation of an id, and whether it is served.
func (o Owners) Of(id string) (orgID string, served bool) {
	orgID, served = o[id]
	return orgID, served || len(o) == 0
}

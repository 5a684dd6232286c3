package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerUUIDs has a connection write UUIDs as 16 bytes, whether they are strings or of github.com/google/uuid. Without it pgx tries that
// for an array, fails, and writes the array again as text.
func registerUUIDs(_ context.Context, conn *pgx.Conn) error {
	one := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}}
	conn.TypeMap().RegisterType(one)
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: one}})
	return nil
}

type uuidCodec struct{ pgtype.UUIDCodec }

// PlanEncode implements pgtype.Codec.
func (c uuidCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case string, uuid.UUID:
			return uuidAsBytes{}
		}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

// errNoUUID tells pgx to send a text as it is. The server then refuses it in its own words.
var errNoUUID = errors.New("no UUID of 36 characters")

type uuidAsBytes struct{}

// Encode implements pgtype.EncodePlan.
func (uuidAsBytes) Encode(value any, buf []byte) ([]byte, error) {
	const characters = 36
	id, ok := value.(uuid.UUID)
	if text, isText := value.(string); isText && len(text) == characters {
		read, err := uuid.Parse(text)
		id, ok = read, err == nil
	}
	if !ok {
		return nil, errNoUUID
	}
	return append(buf, id[:]...), nil
}

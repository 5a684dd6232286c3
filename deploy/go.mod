module paceline.internal/deploy

go 1.26.0

require (
	paceline.internal/gateway v0.0.0
	paceline.internal/platform v0.0.0
	paceline.internal/proto v0.0.0
	paceline.internal/services/messaging v0.0.0
	paceline.internal/services/onboarding v0.0.0
)

require (
	github.com/alecthomas/kong v1.17.0 // indirect
	github.com/golang-jwt/jwt/v5 v5.3.1
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/tools v0.52.0 // indirect
)

replace paceline.internal/platform => ../platform

replace paceline.internal/proto => ../proto

replace paceline.internal/gateway => ../gateway

replace paceline.internal/services/onboarding => ../services/onboarding

replace paceline.internal/services/messaging => ../services/messaging

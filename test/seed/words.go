package seed

import "strings"

// lines sets the number of phone numbers in an area.
const lines = 10_000

// phones are the areas of North America with the exchange 555, which has no subscribers.
func phones() []string {
	areas := strings.Fields(`201 202 203 205 206 207 208 209 210 212 213 214 215 216 217 218 219 224 225 228 229 231 234 239 240 248 251
        252 253 254 256 260 262 267 269 270 276 281 301 302 303 304 305 307 308 309 310 312 313 314 315 316 317 318
        319 320 321 323 325 330 334 336 337 339 347 351 352 360 361 386 401 402 404 405 406 407 408 409 410 412 413
        414 415 417 419 423 424 425 430 432 434 435 440 443 469 478 479 480 484 501 502 503 504 505 507 508 509 510
        512 513 515 516 517 518 520 530 540 541 551 559 561 562 563 567 570 571 573 574 575 580 585 586`)
	for i, area := range areas {
		areas[i] = "+1" + area + "555"
	}
	return areas
}

func names() []string {
	return strings.Fields(`Ana Ângela Beatriz Bruno Carla Caio Daniel Débora Eduardo Elisa Fábio Fernanda Gabriel Helena Igor Isabela
        João Júlia Karen Lucas Luiza Marcos Maria Nina Otávio Paula Pedro Rafael Renata Sofia Thiago Vera William Yara
        Zuleika Alice Ben Chloe Dylan Emma Frank Grace Henry Ivy Jack Kate Liam Mia Noah Olivia Peter Quinn Rose Sam
        Tara Uma Victor Wendy Xavier Zoe`)
}

func texts() []string {
	return []string{
		"Hi! Welcome. Shall we begin?", "It takes five minutes a day, and you choose when.", "Here is the first thing to try today.",
		"How did it go?", "Well done. The next one is a little longer.", "Take your time; just answer when you are ready.",
	}
}

func replies() []string {
	return []string{"Yes", "Sure, go on", "sim", "It went well!", "Tudo certo", "ok", "What comes next?"}
}

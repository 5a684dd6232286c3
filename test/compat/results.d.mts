// What client.mts needs of results.mjs.
export function passes<T>(call: string, act: () => Promise<T>, examine?: (answer: T) => unknown): Promise<T | undefined>;

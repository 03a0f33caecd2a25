/** A value of libnftables-json(5). */
export type Json = unknown;

export type JsonObject = Readonly<Record<string, Json>>;

/** Whether it has members. */
export function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The member of an object, itself an object. */
export function objectAt(value: Json, key: string): JsonObject | undefined {
  const member = isObject(value) ? value[key] : undefined;
  return isObject(member) ? member : undefined;
}

/** The member of an object, a text. */
export function textAt(value: Json, key: string): string | undefined {
  const member = isObject(value) ? value[key] : undefined;
  return typeof member === 'string' ? member : undefined;
}

/** The member of an object, a list. */
export function listAt(value: Json, key: string): readonly Json[] | undefined {
  const member = isObject(value) ? value[key] : undefined;
  return Array.isArray(member) ? member : undefined;
}

/** A statement or an expression is an object with one member, or just a name: its name, and what it is about. */
export function nameAndBody(value: Json): readonly [name: string, body: Json] {
  if (typeof value === 'string') return [value, null];
  return (isObject(value) ? Object.entries(value)[0] : undefined) ?? ['', null];
}

/** An element of a set without its comment, timeout and counter. */
export function elementValue(element: Json): Json {
  const wrapped = objectAt(element, 'elem');
  return wrapped === undefined ? element : wrapped['val'];
}

/** A value of libnftables-json(5). */
export type Json = unknown;

export type JsonObject = Readonly<Record<string, Json>>;

/** Whether the value is an object. */
export function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A member that is an object; undefined otherwise. */
export function objectAt(value: Json, key: string): JsonObject | undefined {
  const member = isObject(value) ? value[key] : undefined;
  return isObject(member) ? member : undefined;
}

/** A member that is a text; undefined otherwise. */
export function textAt(value: Json, key: string): string | undefined {
  const member = isObject(value) ? value[key] : undefined;
  return typeof member === 'string' ? member : undefined;
}

/** A member that is a list; undefined otherwise. */
export function listAt(value: Json, key: string): readonly Json[] | undefined {
  const member = isObject(value) ? value[key] : undefined;
  return Array.isArray(member) ? member : undefined;
}

/** The name and the body of a statement or expression, which is an object with one member, or only a name. */
export function nameAndBody(value: Json): readonly [name: string, body: Json] {
  if (typeof value === 'string') return [value, null];
  return (isObject(value) ? Object.entries(value)[0] : undefined) ?? ['', null];
}

/** An element of a set without its comment, timeout and counter. */
export function elementValue(element: Json): Json {
  const wrapped = objectAt(element, 'elem');
  return wrapped === undefined ? element : wrapped['val'];
}

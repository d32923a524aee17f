// Values that satisfy a schema: what is required in it, and no more.

const LONGEST_WALK = 20;

/** A value for `schema`; references are looked up in `root`. */
export function sample(schema, root = schema, depth = 0) {
  if (depth > LONGEST_WALK || typeof schema !== "object" || schema === null) return {};
  if (schema.$ref) return sample(lookup(root, schema.$ref), root, depth + 1);
  if ("const" in schema) return schema.const;
  if (schema.enum) return schema.enum[0];
  if ("default" in schema && schema.default !== null) return schema.default;
  const choice = schema.anyOf ?? schema.oneOf;
  if (choice && !schema.properties) return sample({ ...schema, anyOf: undefined, oneOf: undefined, ...choice[0] }, root, depth + 1);
  if (schema.allOf) return sample(Object.assign({}, { ...schema, allOf: undefined }, ...schema.allOf), root, depth + 1);
  return ofType([schema.type].flat()[0] ?? (schema.properties ? "object" : "string"), schema, root, depth);
}

function ofType(type, schema, root, depth) {
  switch (type) {
    case "object": {
      const required = schema.required ?? [];
      return Object.fromEntries(required.map((name) => {
        return [name, sample(schema.properties?.[name] ?? {}, root, depth + 1)];
      }));
    }
    case "array": {
      const items = Array.from({ length: schema.minItems ?? 0 });
      return items.map(() => sample(schema.items ?? {}, root, depth + 1));
    }
    case "integer":
    case "number":
      return schema.minimum ?? (schema.exclusiveMinimum ?? 0) + 1;
    case "boolean":
      return true;
    case "null":
      return null;
    default:
      return text(schema);
  }
}

const FORMATS = {
  uri: "http://127.0.0.1/", email: "a@example.com", uuid: "00000000-0000-4000-8000-000000000000",
  date: "2026-01-01", "date-time": "2026-01-01T00:00:00Z",
};

/** Tried in turn where a pattern is given. */
const CANDIDATES = ["a", "1", "A1", "abcdefgh", "a-b", "12345678", "#a", "a/b", "1:2", "I1:2", "0"];

function text({ format, pattern, minLength = 1 }) {
  if (FORMATS[format]) return FORMATS[format];
  const found = pattern && CANDIDATES.find((candidate) => new RegExp(pattern, "u").test(candidate));
  return (found ?? "x").padEnd(minLength, "x");
}

function lookup(root, reference) {
  const steps = reference.replace(/^#\/?/, "").split("/").filter(Boolean);
  return steps.reduce((value, step) => value?.[step.replaceAll("~1", "/").replaceAll("~0", "~")], root) ?? {};
}

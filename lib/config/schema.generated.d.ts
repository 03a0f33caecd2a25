/** One violation, as Ajv reports it (https://ajv.js.org/api.html#error-objects). */
export interface SchemaError {
  readonly instancePath: string;
  readonly keyword: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly message?: string;
}

/** Whether the value has the shape of a config file; what is wrong with it is left in `validate.errors`. */
export const validate: {
  (value: unknown): boolean;
  errors?: readonly SchemaError[] | null;
};

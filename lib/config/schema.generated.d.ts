/** One violation, as Ajv reports it (https://ajv.js.org/api.html#error-objects), of a keyword that the schema has. */
export interface SchemaError {
  readonly instancePath: string;
  readonly keyword: 'additionalProperties' | 'minimum' | 'pattern' | 'required' | 'type';
  /** Each keyword has its own. */
  readonly params: {
    readonly additionalProperty?: string;
    readonly limit?: number;
    readonly missingProperty?: string;
    readonly pattern?: string;
    readonly type?: string;
  };
}

/** Whether the value has the shape of a config file; what is wrong with it is left in `validate.errors`. */
export const validate: {
  (value: unknown): boolean;
  errors?: readonly SchemaError[] | null;
};

// The type of a registry's export `admin`: the admin area as a whole.

export interface AdminArea {
  /** The hosts whose images its pages show: `cdn.example.com`, `localhost:9000`. */
  readonly images?: readonly string[];
}

//! A database of one's own.

use crate::{Error, random, run_sql, with_database};

/// A database with a random name. It goes when this value is dropped, whoever is still connected.
///
/// A process that is killed leaves it behind; the server it is on ends with the tests.
#[derive(Debug)]
pub struct Database {
    admin_url: String,
    name: String,
}

impl Database {
    /// An empty one, or a copy of `template`, to which nobody may be connected.
    ///
    /// # Errors
    /// The server cannot be reached or refuses.
    pub fn create(admin_url: &str, template: Option<&str>) -> Result<Database, Error> {
        let name = format!("ff_{}", random::word()?);
        let template = template.map(|it| format!(" TEMPLATE \"{it}\"")).unwrap_or_default();
        run_sql(admin_url, &[&format!("CREATE DATABASE \"{name}\"{template}")])?;
        Ok(Database { admin_url: admin_url.to_owned(), name })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address under which it was made.
    #[must_use]
    pub fn admin_url(&self) -> &str {
        &self.admin_url
    }

    /// Its address on the server it was made on.
    #[must_use]
    pub fn url(&self) -> String {
        with_database(&self.admin_url, &self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS \"{}\" WITH (FORCE)", self.name);
        // A server that has gone took the database with it.
        let _ = run_sql(&self.admin_url, &["SET statement_timeout = '10s'", &drop]);
    }
}

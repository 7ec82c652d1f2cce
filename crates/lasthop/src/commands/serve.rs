//! `lasthop serve`

use lasthop_serve::{Catalogue, HostNames, serve};

use crate::cli::ServeArgs;
use crate::commands::site::Site;
use crate::error::Error;

const SITE: Site = Site { flag: "listen", exposes: "run simulations here" };

pub fn execute(args: &ServeArgs) -> Result<(), Error> {
    let catalogue = Catalogue::new(&args.scenarios)?;
    let listener = SITE.listen(args.listen, args.open)?;
    serve(listener, catalogue, HostNames(args.host_name.clone())).map_err(SITE.refused(args.listen))
}
